/* serve_store: see serve_store.h. */
#include "serve/serve_store.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "config/config.h"
#include "serve/flush_probe.h"
#include "serve/store_secret.h"
#include "store/local/journal_find.h"
#include "store/local/local_store.h"
#include "store/port.h"
#include "store/spool/late_store.h"
#include "store/spool/spool_store.h"
#include "sys/file.h"

/* Slower than this, waiting for the disk costs more than handing over. */
#define INLINE_FLUSH_US 1000

#define SPOOL_SEGMENT_BYTES (32u << 20)
#define SPOOL_RETAIN_MS 3600000u
#define READ_MS 5000

static void local_says(void *user, enum local_store_level level, const char *text)
{
	const char *who = user;
	switch (level) {
	case LOCAL_STORE_INFO: log_info(who, log_str("text", text)); break;
	case LOCAL_STORE_WARNING: log_warn(who, log_str("text", text)); break;
	case LOCAL_STORE_ERROR: log_error(who, log_str("text", text)); break;
	}
}

static void spool_says(void *user, enum spool_level level, const char *text)
{
	(void)user;
	switch (level) {
	case SPOOL_INFO: log_info("store", log_str("text", text)); break;
	case SPOOL_WARNING: log_warn("store", log_str("text", text)); break;
	case SPOOL_ERROR: log_error("store", log_str("text", text)); break;
	}
}

/* ---- local ---- */

bool serve_store_inline(const struct serve_options *options)
{
	if (options->threads != 1 || options->commit == SERVE_COMMIT_THREAD)
		return false;
	uint64_t us = 0;
	if (options->commit == SERVE_COMMIT_INLINE)
		return true;
	/* A folder that cannot be written is the store's to cope with. */
	return flush_probe_us(file_system_real(), options->data, &us) != 0 || us <= INLINE_FLUSH_US;
}

static int open_local(const struct config *config, struct serve_store *store,
                      struct error_text *ret_text)
{
	static char who[] = "store";
	const struct serve_options *options = &config->serve;
	struct local_store_options local = {
		.path = options->data,
		.retain_ms = options->retain_ms,
		.retain_bytes = options->retain_bytes,
		.dead_keep_ms = options->dead_keep_ms,
		.max_open_tickets = (uint32_t)options->open_tickets,
		.accept_clock = options->accept_clock,
		.lazy_outcomes = true,
		.log = local_says,
		.log_user = who,
	};
	int error = local_store_open(&local, &store->store, ret_text);
	if (error == 0)
		store->key = local_store_key(store->store);
	return error;
}

/* ---- shared ---- */

/* Without a source that spools, only to decide what an earlier start has left. */
static bool needs_spool(const struct config *config, const char *path)
{
	struct stat info;
	return config_spools(config) || stat(path, &info) == 0;
}

static int open_spool(const struct config *config, struct store **ret_local,
                      struct error_text *ret_text)
{
	static char who[] = "spool";
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/spool", config->serve.data);
	if (!needs_spool(config, path))
		return 0;
	struct local_store_options options = {
		.path = path,
		.segment_bytes = SPOOL_SEGMENT_BYTES,
		.retain_ms = SPOOL_RETAIN_MS,
		.max_open_tickets = (uint32_t)config->serve.open_tickets,
		.accept_clock = config->serve.accept_clock,
		.log = local_says,
		.log_user = who,
	};
	return local_store_open(&options, ret_local, ret_text);
}

/* ---- one that is away at the start ---- */

struct late_opening {
	const struct config *config;
	unsigned char key[HASH_KEY_LEN];
	atomic_bool refused;
};

/* What is spooled meanwhile was digested under the secret of an earlier start. */
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
		return error_fill(ret_text, ERR_CONFIG,
		                  "its secret is another than when this gateway last used it; "
		                  "the next start begins with the new one");
	}
	*ret_store = store;
	return 0;
}

/* As at a start: but others may be under way, so it ends as by a signal. */
static void late_is_refused(void *user, int error, const char *text)
{
	struct late_opening *late = user;
	log_error("the shared store cannot be opened",
	          log_str("error", text[0] ? text : error_name(error)));
	atomic_store(&late->refused, true);
	kill(getpid(), SIGTERM);
}

/* Events can be spooled if the secret is known of which the store's digests are made. */
static int open_without(const struct config *config, struct serve_store *store,
                        const struct error_text *why)
{
	struct late_opening *late = mem_zalloc(1, sizeof(*late));
	struct late_store_options options = { .open = open_late,
		                              .refused = late_is_refused,
		                              .user = late };
	if (!late)
		return -ENOMEM;
	late->config = config;
	int error = config_spools(config)
	                    ? store_secret_read(file_system_real(), config->serve.data,
	                                        config->store.url, late->key)
	                    : -ENOENT;
	if (error == 0)
		error = late_store_new(&options, &store->store);
	store->late = late;
	if (error != 0) {
		serve_store_free(store);
		return error;
	}
	store->key = late->key;
	log_warn("the shared store is away: events of sources that may are spooled until it is "
	         "there",
	         log_str("error", why->text));
	return 0;
}

static int open_shared(const struct config *config, struct serve_store *store,
                       struct error_text *ret_text)
{
	int error = shared_store_open(config, &store->store, &store->key, ret_text);
	if (error == ERR_AWAY && open_without(config, store, ret_text) == 0)
		error = 0;
	return error;
}

/* For the next start. */
static void keep_secret(const struct config *config, const struct serve_store *store)
{
	unsigned char old[HASH_KEY_LEN];
	struct store_stats stats;
	struct file_system *files = file_system_real();
	if (!store->spools || store->late)
		return;
	store_stats(store->store, &stats);
	if (stats.spooled_events > 0 &&
	    (store_secret_read(files, config->serve.data, config->store.url, old) != 0 ||
	     memcmp(old, store->key, sizeof(old)) != 0))
		log_warn("the store's secret is not the one under which events were spooled: of "
		         "those, copies that come from now on are not known",
		         log_u64("events", stats.spooled_events));
	secret_wipe(old, sizeof(old));
	int error = store_secret_write(files, config->serve.data, config->store.url, store->key);
	if (error != 0)
		log_warn("the store's secret cannot be kept: while the store is away this gateway "
		         "can start, but not spool",
		         log_code(error));
}

/* For traces, and the spool; a local store makes its own. */
static int make_folder(const struct config *config, struct error_text *ret_text)
{
	struct file_system *files = file_system_real();
	int error = files->methods->make_dir(files, config->serve.data);
	if (error != 0)
		error_fill(ret_text, error, "the data folder %s cannot be made: %s",
		           config->serve.data, error_name(error));
	return error;
}

/* Takes the shared store, also when it fails. */
static int put_spool_before(const struct config *config, struct serve_store *store,
                            struct error_text *ret_text)
{
	struct store *local = NULL;
	int error = make_folder(config, ret_text);
	if (error == 0)
		error = open_spool(config, &local, ret_text);
	if (error == 0)
		error = spool_store_open(
			&(struct spool_store_options){
				.shared = store->store,
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
	struct serve_store store = { .data = config->serve.data,
		                     .shared = config->store.kind != CONFIG_STORE_LOCAL };
	struct buf label = buf_on(store.label, sizeof(store.label) - 1);
	int error = store.shared ? open_shared(config, &store, ret_text)
	                         : open_local(config, &store, ret_text);
	if (error == 0 && store.shared) {
		store.lease_ms = config->store.lease_ms;
		config_store_label(config->store.url, &label);
		error = put_spool_before(config, &store, ret_text);
	}
	if (error == 0 && store.shared)
		keep_secret(config, &store);
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

/* While it waits for delivery, or for a person: that is how long a shared store has it. */
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
	while (!reading->finished) /* an answer, or the end of the store, comes */
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
