/* redis_link: whatever it waits for, its loop goes on. The server is on that very loop: had
 * anything blocked it, there would be no answer. */
#include "support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "link/redis_link.h"

struct world {
	struct loop *loop;
	struct redis_login login;
	struct redis_link *link;
	struct loop_handler listener, peer;
	size_t received;
	bool hangs_up;       /* the server, on the first bytes */
	const char *awaited; /* how the reason begins why it goes down at last */
	const char *refusal; /* of AUTH */
	char why[512];       /* it went down at last */
	bool up, down;
};

/* The resolver that hangs until somebody lets it go on. */
static sem_t resolver, resolved;
static int resolver_says;

static int look_up(const char *host, struct name_addresses *ret_addresses)
{
	CHECK(strcmp(host, "redis.example") == 0);
	while (sem_wait(&resolver) < 0)
		CHECK(errno == EINTR);
	ret_addresses->count = 1;
	ret_addresses->list[0] = ip_from_v4((const unsigned char[]){ 127, 0, 0, 1 });
	int says = resolver_says;
	sem_post(&resolved);
	return says;
}

/* ---- the server ---- */

static void peer_ready(struct loop_handler *handler, uint32_t events)
{
	struct world *world = container_of(handler, struct world, peer);
	char bytes[4096];
	(void)events;

	ssize_t n = recv(handler->fd, bytes, sizeof(bytes), 0);
	if (n > 0)
		world->received += (size_t)n;
	if (n <= 0 || world->hangs_up) {
		loop_remove(world->loop, handler);
		close(handler->fd);
		handler->fd = -1;
	} else if (world->refusal) {
		send(handler->fd, world->refusal, strlen(world->refusal), MSG_NOSIGNAL);
	} else if (memmem(bytes, (size_t)n, "SETNAME", 7)) {
		assert_int_equal(send(handler->fd, "+OK\r\n", 5, MSG_NOSIGNAL), 5);
	}
}

static void listener_ready(struct loop_handler *handler, uint32_t events)
{
	struct world *world = container_of(handler, struct world, listener);
	(void)events;

	assert_true(world->peer.fd < 0);
	world->peer.fd = accept(handler->fd, NULL, NULL);
	assert_int_equal(loop_add(world->loop, &world->peer, LOOP_READ), 0);
}

static uint16_t listen_on_loop(struct world *world)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);

	world->listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(world->listener.fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(world->listener.fd, 8), 0);
	assert_int_equal(getsockname(world->listener.fd, (struct sockaddr *)&address, &len), 0);
	assert_int_equal(loop_add(world->loop, &world->listener, LOOP_READ), 0);
	return ntohs(address.sin_port);
}

/* ---- the link ---- */

static void note_up(void *user)
{
	struct world *world = user;

	world->up = true;
	loop_stop(world->loop);
}

static void note_reply(void *user, struct span reply)
{
	(void)user;
	(void)reply;
	fail_msg("nobody asked");
}

static void note_down(void *user, const char *why)
{
	struct world *world = user;

	if (!world->awaited || strncmp(why, world->awaited, strlen(world->awaited)) != 0)
		return; /* a slow machine: it comes again */
	world->down = true;
	snprintf(world->why, sizeof(world->why), "%s", why);
	loop_stop(world->loop);
}

static struct world *begin(const char *host)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	world->listener = (struct loop_handler){ .ready = listener_ready, .fd = -1 };
	world->peer = (struct loop_handler){ .ready = peer_ready, .fd = -1 };
	assert_int_equal(loop_new(&world->loop), 0);
	struct redis_link_options options = { .loop = world->loop,
		                              .login = &world->login,
		                              .look_up = look_up,
		                              .up = note_up,
		                              .reply = note_reply,
		                              .down = note_down,
		                              .user = world };
	snprintf(options.host.name, sizeof(options.host.name), "%s", host);
	options.host.port = listen_on_loop(world);
	assert_int_equal(redis_link_new(&options, &world->link), 0);
	assert_int_equal(sem_init(&resolver, 0, 0) + sem_init(&resolved, 0, 0), 0);
	resolver_says = 0;
	return world;
}

static void end(struct world *world)
{
	redis_link_free(world->link);
	if (world->peer.fd >= 0)
		close(world->peer.fd);
	close(world->listener.fd);
	loop_free(world->loop);
	free(world);
}

/* Somebody else's affair on the same loop. */
struct affair {
	struct loop_timer timer;
	struct world *world;
};

static void affair_due(struct loop_timer *timer)
{
	struct affair *affair = container_of(timer, struct affair, timer);

	assert_false(affair->world->up);
	sem_post(&resolver);
}

static void run_beside_an_affair(struct world *world)
{
	struct affair affair = { .timer.due = affair_due, .world = world };

	redis_link_start(world->link);
	assert_int_equal(loop_timer_set(world->loop, &affair.timer, 1), 0);
	loop_run(world->loop);
}

static void test_loop_goes_on_while_a_name_is_looked_up(void **state)
{
	(void)state;
	struct world *world = begin("redis.example");

	run_beside_an_affair(world);
	assert_true(world->up);
	end(world);
}

static void test_name_that_nobody_knows_is_told_as_the_resolver_says(void **state)
{
	(void)state;
	struct world *world = begin("redis.example");

	resolver_says = EAI_NONAME;
	world->awaited = gai_strerror(EAI_NONAME);
	run_beside_an_affair(world);
	assert_true(world->down && !world->up);
	end(world);
}

/* The thread that hangs has all that it needs. */
static void test_link_ends_while_its_name_is_looked_up(void **state)
{
	(void)state;
	struct world *world = begin("redis.example");

	redis_link_start(world->link);
	end(world);
	sem_post(&resolver);
	while (sem_wait(&resolved) < 0)
		assert_int_equal(errno, EINTR);
}

static void test_address_is_not_looked_up(void **state)
{
	(void)state;
	struct world *world = begin("127.0.0.1");

	redis_link_start(world->link);
	loop_run(world->loop);
	assert_true(world->up);
	end(world);
}

static void test_loop_goes_on_while_hands_are_shaken(void **state)
{
	(void)state;
	struct world *world = begin("127.0.0.1");

	world->login.tls = true;
	world->hangs_up = true;
	world->awaited = "no TLS connection: ";
	redis_link_start(world->link);
	loop_run(world->loop);
	assert_true(world->down && !world->up);
	assert_true(world->received > 0); /* else it was the link that gave up */
	end(world);
}

/* Redis repeats what it does not understand, and cuts it. */
static void check_refusal(const char *password, const char *refusal, const char *wanted)
{
	struct world *world = begin("127.0.0.1");

	snprintf(world->login.password, sizeof(world->login.password), "%s", password);
	world->refusal = refusal;
	world->awaited = "ERR ";
	redis_link_start(world->link);
	loop_run(world->loop);
	assert_string_equal(world->why, wanted);
	end(world);
}

static void test_server_that_repeats_the_password_is_quoted_without_it(void **state)
{
	(void)state;
	char filler[401], text[1024];

	check_refusal("s3cret",
	              "-ERR unknown command 'AUTH', with args beginning with: 's3cret' \r\n",
	              "ERR unknown command 'AUTH'");
	check_refusal("s3cret", "-ERR unknown command `AUTH`, with args beginning with: `s3c\r\n",
	              "ERR unknown command `AUTH`");
	check_refusal("s3cret", "-ERR no user for s3cret\tat all\r\n",
	              "ERR no user for *** at all");
	/* One that is cut in our own hands, behind one that makes room for it. */
	memset(filler, 'x', 400);
	filler[400] = '\0';
	for (int pad = 0; pad < 24; pad++) {
		snprintf(text, sizeof(text), "-ERR s3cret%.*ss3cret%ss3cret\r\n", 120 + pad, filler,
		         filler + 100 + pad);
		struct world *world = begin("127.0.0.1");
		snprintf(world->login.password, sizeof(world->login.password), "s3cret");
		world->refusal = text;
		world->awaited = "ERR ***x";
		redis_link_start(world->link);
		loop_run(world->loop);
		assert_null(strstr(world->why, "s3"));
		assert_null(strstr(world->why, "xs"));
		end(world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loop_goes_on_while_a_name_is_looked_up),
		cmocka_unit_test(test_name_that_nobody_knows_is_told_as_the_resolver_says),
		cmocka_unit_test(test_link_ends_while_its_name_is_looked_up),
		cmocka_unit_test(test_address_is_not_looked_up),
		cmocka_unit_test(test_loop_goes_on_while_hands_are_shaken),
		cmocka_unit_test(test_server_that_repeats_the_password_is_quoted_without_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
