/* name_lookup: see name_lookup.h. */
#include "link/name_lookup.h"

#include <netdb.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "codec/ip.h"
#include "sys/loop.h"
#include "sys/thread.h"

/* Shared by the caller and the thread; the last of them frees it. */
struct name_lookup {
	struct thread thread;
	pthread_mutex_t lock; /* for what follows, down to the answer */
	bool answered;
	bool left; /* by the caller; its loop may be freed */
	int error;
	struct name_addresses addresses;
	struct loop *loop;
	name_lookup_fn *ask;
	char host[];
};

static void free_shared(struct name_lookup *lookup)
{
	pthread_mutex_destroy(&lookup->lock);
	mem_free(lookup);
}

/* More addresses than there is room for are an error: the caller checks all of them. */
static int ask_system(const char *host, struct name_addresses *ret_addresses)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	int error = getaddrinfo(host, NULL, &hints, &list);
	if (error)
		return error;
	ret_addresses->count = 0;
	struct addrinfo *at = list;
	for (; at && ret_addresses->count < NAME_ADDRESSES_MAX; at = at->ai_next)
		ret_addresses->list[ret_addresses->count++] = socket_address_ip(at->ai_addr);
	error = at ? EAI_OVERFLOW : ret_addresses->count == 0 ? EAI_NONAME : 0;
	freeaddrinfo(list);
	return error;
}

static void answer(void *user)
{
	struct name_lookup *lookup = user;
	struct name_addresses addresses = { .count = 0 };
	int error = lookup->ask(lookup->host, &addresses);
	pthread_mutex_lock(&lookup->lock);
	lookup->error = error;
	lookup->addresses = addresses;
	lookup->answered = true;
	bool left = lookup->left;
	if (!left)
		loop_wake(lookup->loop);
	pthread_mutex_unlock(&lookup->lock);
	if (left)
		free_shared(lookup);
}

int name_lookup_start(const struct name_lookup_question *question, struct name_lookup **ret_lookup)
{
	size_t len = strlen(question->host);
	struct name_lookup *lookup = mem_zalloc(1, sizeof(*lookup) + len + 1);
	if (!lookup)
		return -ENOMEM;
	lookup->loop = question->loop;
	lookup->ask = question->ask ? question->ask : ask_system;
	memcpy(lookup->host, question->host, len + 1);
	pthread_mutex_init(&lookup->lock, NULL);
	struct thread_options options = {
		.name = "name", .cpu = THREAD_ANY_CPU, .run = answer, .user = lookup
	};
	int error = thread_start(&lookup->thread, &options);
	if (error) {
		free_shared(lookup);
		return error;
	}
	*ret_lookup = lookup;
	return 0;
}

bool name_lookup_ready(struct name_lookup *lookup, int *ret_error,
                       struct name_addresses *ret_addresses)
{
	pthread_mutex_lock(&lookup->lock);
	bool answered = lookup->answered;
	if (answered) {
		*ret_error = lookup->error;
		*ret_addresses = lookup->addresses;
	}
	pthread_mutex_unlock(&lookup->lock);
	return answered;
}

struct name_lookup *name_lookup_free(struct name_lookup *lookup)
{
	if (!lookup)
		return NULL;
	pthread_mutex_lock(&lookup->lock);
	bool answered = lookup->answered;
	if (!answered) {
		lookup->left = true;
		thread_leave(&lookup->thread); /* under the lock: the thread frees it all */
	}
	pthread_mutex_unlock(&lookup->lock);
	if (answered) {
		thread_join(&lookup->thread);
		free_shared(lookup);
	}
	return NULL;
}
