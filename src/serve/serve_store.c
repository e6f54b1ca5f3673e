/*
 * The store that the configuration names: opened, also later if it is away, and read from;
 * the secret of a shared store; the gateway while it waits for a shared store.
 * See serve_private.h.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "config/config.h"
#include "net/http/http_server.h"
#include "serve/serve_private.h"
#include "store/local/inspect.h"
#include "store/local/local_store.h"
#include "store/port.h"
#include "store/spool/spool_store.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/loop.h"
#include "sys/thread.h"
#include "sys/wake_event.h"

/* ---- is the disk fast? ---- */

/* A single io thread can write the journal itself, once a round: no hand-over to another
 * thread, but no service while it waits for the disk. That pays on a fast disk. A few small
 * durable writes to a file in the data folder measure it, after the store has locked the
 * folder; the fastest counts. */

#define PROBES 15u

static int flush_probe_us(struct file_system *fs, const char *folder, uint64_t *ret_us)
{
	char path[4096];
	int len = snprintf(path, sizeof(path), "%s/flush-probe.tmp", folder);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	cleanup_free void *block = mem_aligned(FILE_BLOCK, FILE_BLOCK);
	if (!block)
		return -ENOMEM;
	memset(block, 0, FILE_BLOCK);
	int fd = -1;
	int error = fs->methods->open(fs, path,
	                              FILE_WRITE | FILE_CREATE | FILE_DIRECT | FILE_SYNC_DATA |
	                                      FILE_REGULAR,
	                              &fd);
	if (error != 0)
		return error;
	uint64_t best_us = UINT64_MAX;
	error = fs->methods->write(fs, fd, block, FILE_BLOCK, 0);
	for (unsigned i = 0; error == 0 && i < PROBES; i++) {
		uint64_t begin = clock_monotonic_ns();
		error = fs->methods->write(fs, fd, block, FILE_BLOCK, 0);
		uint64_t us = (clock_monotonic_ns() - begin) / 1000;
		if (us < best_us)
			best_us = us;
	}
	if (error == 0)
		*ret_us = best_us;
	fs->methods->close(fs, fd);
	fs->methods->remove(fs, path);
	return error;
}

/* ---- the secret of a shared store ---- */

/* Kept in the data folder, so that a gateway that starts while its store is unreachable
 * computes the same digests as the store. The file `store-secret`: 16 bytes of secret, then
 * 16 bytes that identify the store's URL (its digest under the secret). Only the owner can
 * read it. */

#define SECRET_NAME "store-secret"

struct kept {
	unsigned char key[HASH_KEY_LEN];
	uint64_t url[2];
};
_Static_assert(sizeof(struct kept) == 32, "no holes");

static int place_secret(const char *folder, const char *name, char path[static PATH_MAX])
{
	int len = snprintf(path, PATH_MAX, "%s/%s", folder, name);
	return len > 0 && len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static void make_kept(struct kept *kept, struct span url, const unsigned char *key)
{
	memcpy(kept->key, key, HASH_KEY_LEN);
	hash_keyed128(kept->key, url.ptr, url.len, kept->url);
}

/* -ENOENT: no secret is kept for this URL. */
static int store_secret_read(struct file_system *files, const char *folder, struct span url,
                             unsigned char ret_key[static HASH_KEY_LEN])
{
	char path[PATH_MAX];
	char *bytes = NULL;
	size_t len = 0;
	struct kept kept, wanted;
	int error = place_secret(folder, SECRET_NAME, path);
	if (error == 0)
		error = file_read_regular(files, path, sizeof(kept), &bytes, &len);
	if (error != 0)
		return error == ERR_TOO_LARGE ? -ENOENT : error;
	if (len == sizeof(kept)) {
		memcpy(&kept, bytes, sizeof(kept));
		make_kept(&wanted, url, kept.key);
	}
	if (len != sizeof(kept) || memcmp(&kept, &wanted, sizeof(kept)) != 0)
		error = -ENOENT;
	else
		memcpy(ret_key, kept.key, HASH_KEY_LEN);
	secret_wipe(&kept, sizeof(kept));
	secret_wipe(&wanted, sizeof(wanted));
	secret_wipe(bytes, len);
	mem_free(bytes);
	return error;
}

static int write_kept(struct file_system *files, const char *path, const struct kept *kept)
{
	int fd = -1;
	int error = files->methods->open(files, path, FILE_WRITE | FILE_CREATE, &fd);
	if (error != 0)
		return error;
	error = files->methods->write(files, fd, kept, sizeof(*kept), 0);
	if (error == 0)
		error = files->methods->truncate(files, fd, sizeof(*kept));
	if (error == 0)
		error = files->methods->sync_data(files, fd);
	int closed = files->methods->close(files, fd);
	return error != 0 ? error : closed;
}

/* Durable when it returns. A file that has the secret already is not written again. */
static int store_secret_write(struct file_system *files, const char *folder, struct span url,
                              const unsigned char key[static HASH_KEY_LEN])
{
	char path[PATH_MAX], beside[PATH_MAX];
	unsigned char old[HASH_KEY_LEN];
	struct kept kept;
	bool same = store_secret_read(files, folder, url, old) == 0 &&
	            memcmp(old, key, sizeof(old)) == 0;
	secret_wipe(old, sizeof(old));
	if (same)
		return 0;
	int error = place_secret(folder, SECRET_NAME, path);
	if (error == 0)
		error = place_secret(folder, SECRET_NAME ".new", beside);
	if (error != 0)
		return error;
	make_kept(&kept, url, key);
	error = write_kept(files, beside, &kept);
	secret_wipe(&kept, sizeof(kept));
	if (error == 0)
		error = files->methods->rename(files, beside, path);
	return error != 0 ? error : files->methods->sync_dir(files, folder);
}

/* ---- the store ---- */

/* A slower disk costs more than the hand-over to another thread. */
#define INLINE_FLUSH_US 1000

#define SPOOL_SEGMENT_BYTES (32u << 20)
#define SPOOL_RETAIN_MS 3600000u
#define READ_MS 5000

static void local_says(void *user, enum local_store_level level, const char *text)
{
	static const enum log_level levels[] = { [LOCAL_STORE_INFO] = LOG_LEVEL_INFO,
		                                 [LOCAL_STORE_WARNING] = LOG_LEVEL_WARN,
		                                 [LOCAL_STORE_ERROR] = LOG_LEVEL_ERROR };
	serve_log(levels[level], user, text);
}

static void spool_says(void *user, enum spool_level level, const char *text)
{
	static const enum log_level levels[] = { [SPOOL_INFO] = LOG_LEVEL_INFO,
		                                 [SPOOL_WARNING] = LOG_LEVEL_WARN,
		                                 [SPOOL_ERROR] = LOG_LEVEL_ERROR };
	(void)user;
	serve_log(levels[level], "shared", text);
}

/* ---- local ---- */

bool serve_store_inline(const struct serve_options *options)
{
	if (options->threads != 1 || options->commit == SERVE_COMMIT_THREAD)
		return false;
	uint64_t us = 0;
	if (options->commit == SERVE_COMMIT_INLINE)
		return true;
	/* If the folder cannot be written, the store reports it. */
	return flush_probe_us(file_system_real(), options->local.path, &us) != 0 ||
	       us <= INLINE_FLUSH_US;
}

static int open_local(const struct config *config, struct serve_store *store,
                      struct error_text *ret_text)
{
	static char who[] = "store";
	struct local_store_options local = config->serve.local;
	local.max_open_tickets = (uint32_t)config->serve.open_tickets;
	local.lazy_outcomes = true;
	local.log = local_says;
	local.log_user = who;
	int error = local_store_open(&local, &store->store, ret_text);
	if (error == 0)
		store->key = local_store_key(store->store);
	return error;
}

/* ---- shared ---- */

static int open_spool(const struct config *config, struct store **ret_local,
                      struct error_text *ret_text)
{
	static char who[] = "spool";
	char path[PATH_MAX];
	struct stat info;
	snprintf(path, sizeof(path), "%s/spool", config->serve.local.path);
	/* A spool that an earlier start left is decided also if no source spools any more. */
	if (!config_spools(config) && stat(path, &info) != 0)
		return 0;
	struct local_store_options options = {
		.path = path,
		.segment_bytes = SPOOL_SEGMENT_BYTES,
		.retain_ms = SPOOL_RETAIN_MS,
		.max_open_tickets = (uint32_t)config->serve.open_tickets,
		.accept_clock = config->serve.local.accept_clock,
		.log = local_says,
		.log_user = who,
	};
	return local_store_open(&options, ret_local, ret_text);
}

/* ---- a shared store that is away at the start ---- */

struct late_opening {
	const struct config *config;
	unsigned char key[HASH_KEY_LEN];
	atomic_bool refused;
};

/* Events spooled meanwhile were digested under the secret of an earlier start. */
static int open_late(void *user, struct store **ret_store, struct error_text *ret_text)
{
	struct late_opening *late = user;
	const unsigned char *key = NULL;
	struct store *store = NULL;
	int error = shared_store_open(late->config, &store, &key, ret_text);
	if (error != 0)
		return error;
	if (memcmp(key, late->key, sizeof(late->key)) != 0) {
		store_free(store);
		return error_fill(
			ret_text, ERR_CONFIG,
			"its secret has changed since this gateway last used it; the next start uses the new one");
	}
	*ret_store = store;
	return 0;
}

/* At a start this ends the process; here requests are under way, so it stops as by a signal. */
static void late_is_refused(void *user, int error, const char *text)
{
	struct late_opening *late = user;
	log_error("shared store cannot be opened",
	          log_str("error", text[0] ? text : error_name(error)));
	atomic_store(&late->refused, true);
	kill(getpid(), SIGTERM);
}

/* Events can be spooled if the secret of the store's digests is known. */
static int open_without(const struct config *config, struct serve_store *store,
                        const struct error_text *why)
{
	struct late_opening *late = mem_zalloc(1, sizeof(*late));
	if (!late)
		return -ENOMEM;
	late->config = config;
	int error = config_spools(config)
	                    ? store_secret_read(file_system_real(), config->serve.local.path,
	                                        config->store.url, late->key)
	                    : -ENOENT;
	store->late = late;
	if (error != 0) {
		serve_store_free(store);
		return error;
	}
	store->key = late->key;
	log_warn("shared store is unreachable at start: events with store_away: spool are spooled",
	         log_str("error", why->text));
	return 0;
}

/* For a next start while the store is unreachable. */
static void keep_secret(const struct config *config, const struct serve_store *store)
{
	unsigned char old[HASH_KEY_LEN];
	struct store_stats stats;
	struct file_system *files = file_system_real();
	if (!store->spools || store->late)
		return;
	store_stats(store->store, &stats);
	if (stats.spooled_events > 0 &&
	    (store_secret_read(files, config->serve.local.path, config->store.url, old) != 0 ||
	     memcmp(old, store->key, sizeof(old)) != 0))
		log_warn(
			"shared store has a new secret: duplicates of spooled events are not recognized",
			log_u64("events", stats.spooled_events));
	secret_wipe(old, sizeof(old));
	int error = store_secret_write(files, config->serve.local.path, config->store.url,
	                               store->key);
	if (error != 0)
		log_warn(
			"secret of the shared store not saved: no spooling if it is unreachable at the next start",
			log_code(error));
}

/* Takes the shared store, also on failure. */
static int put_spool_before(const struct config *config, struct serve_store *store,
                            struct error_text *ret_text)
{
	struct store *local = NULL;
	struct file_system *files = file_system_real();
	/* For traces and the spool; a local store makes its folder itself. */
	int error = files->methods->make_dir(files, config->serve.local.path);
	if (error != 0)
		error_fill(ret_text, error, "the data folder %s cannot be created: %s",
		           config->serve.local.path, error_name(error));
	else
		error = open_spool(config, &local, ret_text);
	if (error == 0)
		error = spool_store_open(
			&(struct spool_store_options){
				.shared = store->store,
				.open = open_late, /* if there is no shared store yet */
				.refused = late_is_refused,
				.open_user = store->late,
				.local = local,
				.ready_when_away = config_spools(config),
				.in_parts = config_store_in_parts(config->store.url),
				.log = spool_says },
			&store->store);
	if (error != 0) {
		store_free(local);
		store->store = store_free(store->store);
	}
	store->spools = local != NULL;
	return error;
}

int serve_store_open(const struct config *config, struct serve_store *ret_store,
                     struct error_text *ret_text)
{
	struct serve_store store = { .data = config->serve.local.path,
		                     .shared = config->store.kind != CONFIG_STORE_LOCAL };
	struct buf label = buf_on(store.label, sizeof(store.label) - 1);
	int error;
	if (store.shared) {
		error = shared_store_open(config, &store.store, &store.key, ret_text);
		if (error == ERR_AWAY && open_without(config, &store, ret_text) == 0)
			error = 0;
		store.lease_ms = config->store.lease_ms;
		config_store_label(config->store.url, &label);
		if (error == 0)
			error = put_spool_before(config, &store, ret_text);
		if (error == 0)
			keep_secret(config, &store);
	} else {
		error = open_local(config, &store, ret_text);
	}
	if (error == 0)
		*ret_store = store;
	else
		serve_store_free(&store);
	return error;
}

int serve_store_attach(struct serve_store *store, struct store_host *host)
{
	if (!store->shared)
		return 0;
	return port_new(host, &(struct port_options){ .max_in_flight = 4 }, &store->reader);
}

bool serve_store_refused(const struct serve_store *store)
{
	return store->late && atomic_load(&store->late->refused);
}

void serve_store_close(struct serve_store *store)
{
	if (store->reader) {
		port_collect(store->reader);
		store_free(port_store(store->reader));
		store->reader = NULL;
	}
}

void serve_store_free(struct serve_store *store)
{
	if (store->late)
		secret_wipe(store->late->key, sizeof(store->late->key));
	store->late = mem_free(store->late);
}

/* ---- reading an event again ---- */

struct reading {
	struct store_read read;
	bool finished;
};

static void read_done(struct store_op *op)
{
	struct reading *reading = op->user;
	reading->finished = true;
}

/* A shared store keeps an event while it waits for delivery or for a person. */
static int read_shared(struct serve_store *store, uint64_t ticket, struct buf *ret_payload)
{
	struct reading *reading = mem_zalloc(1, sizeof(*reading));
	struct store_item item;
	struct store_parts parts;
	size_t offset = 0;
	if (!reading)
		return -ENOMEM;
	reading->read.op =
		(struct store_op){ .kind = STORE_READ, .done = read_done, .user = reading };
	reading->read.ticket = ticket;
	store_submit(port_store(store->reader), &reading->read.op);
	store_flush(port_store(store->reader));
	while (!reading->finished) /* the store answers, also when it closes */
		port_wait(store->reader, READ_MS);
	int error = reading->read.op.error;
	if (error == 0 && !store_item_next(buf_span(&reading->read.items), &offset, &item, &parts))
		error = -ENOENT;
	if (error == 0) {
		buf_append_span(ret_payload, parts.payload);
		error = ret_payload->failed;
	}
	buf_free(&reading->read.items);
	mem_free(reading);
	return error;
}

int serve_store_read(void *user, uint64_t ticket, struct buf *ret_payload)
{
	struct serve_store *store = user;
	if (store->shared)
		return read_shared(store, ticket, ret_payload);
	return journal_find_event(&(struct journal_inspect_options){ .path = store->data }, ticket,
	                          ret_payload);
}

/* ---- waiting for a shared store ---- */

#define TRY_EVERY_MS 1000

struct waiting {
	struct waiting_options options;
	struct loop *loop;
	struct http_server *server, *admin; /* admin: NULL if it cannot listen */
	struct loop_handler signals;
	bool signalled;

	/* Owned by the thread until it has ended. */
	struct thread thread;
	struct wake_event wake;
	struct serve_store store;
	struct error_text text;
	int error;

	atomic_bool ending;
};

/* ---- what is answered ---- */

static void answer_text(struct http_request *request, uint16_t status, struct span text)
{
	http_respond(request, &(struct http_response){ .status = status,
	                                               .content_type = SPAN("text/plain"),
	                                               .body = text });
}

static void handle(struct http_request *request)
{
	if (span_eq(request->head.path, SPAN("/healthz")))
		answer_text(request, 200, SPAN("alive\n"));
	else if (span_eq(request->head.path, SPAN("/readyz")))
		answer_text(request, 503, SPAN("not ready: the shared store is unreachable\n"));
	else
		http_respond_problem(request, 503,
		                     "the shared store is unreachable; try again later",
		                     SPAN("Retry-After: 1\r\n"));
}

static bool wants_body(const struct http_request *request)
{
	(void)request;
	return false;
}

static int listen_at(struct waiting *waiting, const char *address, struct tls *tls,
                     struct http_server **ret_server, struct error_text *ret_text)
{
	struct http_server_options options = {
		.loop = waiting->loop,
		.address = address,
		.limits = http_limits_default,
		.gauge = waiting->options.gauge,
		.tls = tls,
		.handle = handle,
		.wants_body = wants_body,
		.user = waiting,
	};
	options.limits.connections = waiting->options.connections;
	return http_server_new(&options, ret_server, ret_text);
}

/* For health checks. A failure is reported when the real admin listener opens. */
static void listen_for_admin(struct waiting *waiting)
{
	const char *address = waiting->options.config->serve.admin;
	struct error_text ignored;

	if (strcmp(address, "none") == 0)
		return;
	int error = listen_at(waiting, address,
	                      option_is_loopback(address) ? NULL : waiting->options.tls,
	                      &waiting->admin, &ignored);
	if (error != 0)
		waiting->admin = NULL;
}

/* ---- signals ---- */

static void on_signal(struct loop_handler *handler, uint32_t events)
{
	struct waiting *waiting = container_of(handler, struct waiting, signals);
	struct signalfd_siginfo info;

	(void)events;
	if (read(handler->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		log_warn("SIGHUP ignored: the shared store is unreachable");
		return;
	}
	waiting->signalled = true;
	loop_stop(waiting->loop);
}

/* ---- the store ---- */

static void open_store(void *user)
{
	struct waiting *waiting = user;

	waiting->error = ERR_AWAY;
	while (waiting->error == ERR_AWAY && !atomic_load(&waiting->ending)) {
		wake_event_wait(&waiting->wake, TRY_EVERY_MS);
		if (!atomic_load(&waiting->ending))
			waiting->error = serve_store_open(waiting->options.config, &waiting->store,
			                                  &waiting->text);
	}
	loop_stop(waiting->loop);
}

int serve_waiting_run(struct waiting *waiting, struct serve_store *ret_store,
                      struct error_text *ret_text)
{
	struct thread_options thread = {
		.name = "late store", .cpu = THREAD_ANY_CPU, .run = open_store, .user = waiting
	};
	char url[512];
	int error = thread_start(&waiting->thread, &thread);

	if (error != 0)
		return error;
	option_url(waiting->options.tls ? "https" : "http", waiting->options.config->serve.listen,
	           http_server_port(waiting->server), url, sizeof(url));
	log_warn("shared store is unreachable at start: requests rejected with 503",
	         log_str("listen", url), log_str("error", ret_text->text));
	loop_run(waiting->loop);
	atomic_store(&waiting->ending, true);
	wake_event_set(&waiting->wake);
	thread_join(&waiting->thread);
	*ret_text = waiting->text;
	if (waiting->signalled && waiting->error == 0) {
		store_free(waiting->store.store);
		serve_store_free(&waiting->store);
	}
	if (waiting->signalled || waiting->error != 0)
		return waiting->signalled ? ERR_CLOSING : waiting->error;
	*ret_store = waiting->store;
	return 0;
}

/* ---- begin and end ---- */

int serve_waiting_new(const struct waiting_options *options, struct waiting **ret_waiting,
                      struct error_text *ret_text)
{
	struct waiting *waiting = mem_zalloc(1, sizeof(*waiting));

	if (!waiting)
		return -ENOMEM;
	waiting->options = *options;
	wake_event_init(&waiting->wake);
	int error = loop_new(&waiting->loop);
	if (error == 0)
		error = listen_at(waiting, options->config->serve.listen, options->tls,
		                  &waiting->server, ret_text);
	if (error == 0) {
		waiting->signals = (struct loop_handler){ .ready = on_signal,
			                                  .fd = options->signal_fd };
		error = loop_add(waiting->loop, &waiting->signals, LOOP_READ);
	}
	if (error != 0) {
		serve_waiting_free(waiting);
		return error;
	}
	listen_for_admin(waiting);
	*ret_waiting = waiting;
	return 0;
}

const struct http_server *serve_waiting_server(const struct waiting *waiting)
{
	return waiting ? waiting->server : NULL;
}

struct waiting *serve_waiting_free(struct waiting *waiting)
{
	if (!waiting)
		return NULL;
	waiting->server = http_server_free(waiting->server);
	waiting->admin = http_server_free(waiting->admin);
	waiting->loop = loop_free(waiting->loop);
	wake_event_destroy(&waiting->wake);
	return mem_free(waiting);
}
