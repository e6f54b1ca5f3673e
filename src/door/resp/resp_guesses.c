/* resp_guesses: see resp_guesses.h. */
#include "door/resp/resp_guesses.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"

struct guesser {
	struct ip_address address;
	uint32_t wrong;    /* times; 0: the slot is free */
	uint64_t last_ms;  /* the last time */
	uint64_t until_ms; /* no AUTH from there is answered before */
};

struct resp_guesses {
	pthread_mutex_t lock;
	struct guesser guessers[RESP_GUESS_ADDRESSES];
};

int resp_guesses_new(struct resp_guesses **ret_guesses)
{
	struct resp_guesses *guesses = mem_zalloc(1, sizeof(*guesses));
	if (!guesses)
		return -ENOMEM;
	int error = -pthread_mutex_init(&guesses->lock, NULL);
	if (error)
		mem_free(guesses);
	else
		*ret_guesses = guesses;
	return error;
}

struct resp_guesses *resp_guesses_free(struct resp_guesses *guesses)
{
	if (guesses)
		pthread_mutex_destroy(&guesses->lock);
	return mem_free(guesses);
}

static bool is_over(const struct guesser *guesser, uint64_t now_ms)
{
	return guesser->wrong == 0 || now_ms >= guesser->last_ms + RESP_GUESS_MEMORY_MS;
}

/* NULL: no wrong password lately. `ret_place`: where to note one. */
static struct guesser *find(struct resp_guesses *guesses, const struct ip_address *address,
                            uint64_t now_ms, struct guesser **ret_place)
{
	struct guesser *place = &guesses->guessers[0];
	for (uint32_t i = 0; i < RESP_GUESS_ADDRESSES; i++) {
		struct guesser *guesser = &guesses->guessers[i];
		if (is_over(guesser, now_ms))
			guesser->wrong = 0;
		else if (memcmp(&guesser->address, address, sizeof(*address)) == 0)
			return guesser;
		if (place->wrong > 0 && (guesser->wrong == 0 || guesser->last_ms < place->last_ms))
			place = guesser;
	}
	*ret_place = place;
	return NULL;
}

static void note_wrong(struct guesser *guesser, uint64_t now_ms)
{
	uint32_t doublings = guesser->wrong < 16 ? guesser->wrong : 16;
	uint64_t from_ms = guesser->until_ms > now_ms ? guesser->until_ms : now_ms;
	guesser->wrong += guesser->wrong < UINT32_MAX;
	guesser->last_ms = now_ms;
	guesser->until_ms = from_ms + ((uint64_t)RESP_GUESS_FIRST_MS << doublings);
	if (guesser->until_ms > now_ms + RESP_GUESS_MAX_MS)
		guesser->until_ms = now_ms + RESP_GUESS_MAX_MS;
}

uint32_t resp_guesses_wait(struct resp_guesses *guesses, const struct ip_address *address,
                           bool wrong, uint64_t now_ms)
{
	struct ip_address place = *address;
	struct guesser *free_slot = NULL;
	uint32_t wait_ms = 0;
	if (!ip_is_v4(&place)) /* a host has 2⁶⁴ addresses of IPv6 to itself */
		memset(place.bytes + 8, 0, 8);
	pthread_mutex_lock(&guesses->lock);
	struct guesser *guesser = find(guesses, &place, now_ms, &free_slot);
	if (!guesser && wrong) {
		guesser = free_slot;
		*guesser = (struct guesser){ .address = place };
	}
	if (guesser && wrong)
		note_wrong(guesser, now_ms);
	if (guesser && guesser->until_ms > now_ms)
		wait_ms = (uint32_t)(guesser->until_ms - now_ms);
	pthread_mutex_unlock(&guesses->lock);
	return wait_ms;
}
