/*
 * config_rows: the table of all options (the flags of serve, then the options of the
 * configuration file in the order of the manual) and the lookups in it.
 * See config.h and config_internal.h.
 *
 * A row: path, kind, the field it is read into; then what differs from zero.
 */
#include "config/config_internal.h"
#include "door/claims/claims.h"

#define DAY_MS UINT64_C(86400000)
#define HOUR_MS (DAY_MS / 24)
#define WINDOW_MIN_MS UINT64_C(1000)
#define WINDOW_MAX_MS (3650 * DAY_MS)

/* Kind and field of a row that shares a flag of serve. */
#define FLAG(name) CONFIG_FLAG, .flag = (name)
/* The field: one member, or an array of at most `most` and the member that counts it. */
#define FIELD(type, member) \
	.offset = offsetof(struct type, member), .size = sizeof(((struct type *)NULL)->member)
#define COUNTED(type, member, counter, most)                                                     \
	.offset = offsetof(struct type, member), .count_offset = offsetof(struct type, counter), \
	.max = (most)
/* Structs that have rows themselves: an array inside the struct, or a pointer to one. */
#define INSIDE(type, member, counter)                                                              \
	.offset = offsetof(struct type, member), .size = sizeof(((struct type *)NULL)->member[0]), \
	.count_offset = offsetof(struct type, counter), .inside = true
#define POINTED(type, member, counter)                                                             \
	.offset = offsetof(struct type, member), .size = sizeof(((struct type *)NULL)->member[0]), \
	.count_offset = offsetof(struct type, counter)

/* The options of `auth`, the same for a source and the claims API. Not formatted:
 * clang-format would align every backslash behind the longest line. */
/* clang-format off */
#define AUTH_ROWS(AT) \
	{ AT ".kind", CONFIG_CHOICE, FIELD(auth_spec, kind), \
	  .choices = "none|header|basic|bearer|standard-webhooks|hmac|genesys|github|stripe|shopify|twilio|certificate", \
	  .standard = "header, if `header` is given", .also = "type|scheme|method", \
	  .help = "an API key in a header, HTTP Basic, a bearer token, or a signature as a platform makes it" }, \
	{ AT ".header", CONFIG_TEXT, FIELD(auth_spec, header), .max = 64, .value = "NAME", \
	  .help = "the header with the key (`header`) or the signature (`hmac`)" }, \
	{ AT ".user", CONFIG_TEXT, FIELD(auth_spec, user), .max = 128, .value = "NAME", \
	  .also = "username|login", .help = "the user of `basic`" }, \
	{ AT ".secret", CONFIG_SECRETS, \
	  COUNTED(auth_spec, secrets, secret_count, AUTH_SECRETS_MAX), .value = "SECRET", \
	  .also = "secrets|password|token|key|api_key", \
	  .help = "the key, password, token or signing secret, or a list of up to 5 while they are rotated; `${NAME}` or `file:PATH`" }, \
	{ AT ".algorithm", CONFIG_CHOICE, FIELD(auth_spec, algorithm), \
	  .choices = "sha256|sha1|sha512", .standard = "sha256", .help = "hash algorithm of `hmac`" }, \
	{ AT ".encoding", CONFIG_CHOICE, FIELD(auth_spec, encoding), .choices = "hex|base64", \
	  .standard = "hex", .help = "encoding of the signature of `hmac`" }, \
	{ AT ".prefix", CONFIG_TEXT, FIELD(auth_spec, prefix), .max = 64, .value = "TEXT", \
	  .help = "text before the signature of `hmac`, such as `sha256=`" }, \
	{ AT ".signed", CONFIG_TEXTS, \
	  COUNTED(auth_spec, signed_parts, signed_count, AUTH_SIGNED_MAX), .value = "[PART…]", \
	  .standard = "[body]", \
	  .help = "the parts that `hmac` signs, joined in this order: `body`, `header:NAME`, `path`, `method`, `url`, `const:TEXT`" }, \
	{ AT ".timestamp", CONFIG_TEXT, FIELD(auth_spec, timestamp), .max = 128, \
	  .value = "PART", \
	  .help = "the part with the time of the signature of `hmac` in unix seconds, such as `header:X-Time`" }, \
	{ AT ".tolerance", CONFIG_SECONDS, FIELD(auth_spec, tolerance_s), .min = 1000, \
	  .max = DAY_MS, .value = "TIME", .standard = "5m", \
	  .help = "largest difference between the time of a signature and the clock" }, \
	{ AT ".public_url", CONFIG_TEXT, FIELD(auth_spec, public_url), .max = 512, \
	  .value = "URL", \
	  .help = "the URL under which senders reach stile, `https://HOST[:PORT][/PREFIX]`, if a proxy changes it (for `twilio`, and for `hmac` that signs the url)" }, \
	{ AT ".names", CONFIG_TEXTS, COUNTED(auth_spec, names, name_count, AUTH_NETWORKS_MAX), \
	  .value = "[NAME…]", \
	  .help = "accepted names in client certificates (`certificate`); without it, any certificate that `tls.client_ca` signed" }, \
	{ AT ".networks", CONFIG_NETWORKS, \
	  COUNTED(auth_spec, networks, network_count, AUTH_NETWORKS_MAX), .value = "[CIDR…]", \
	  .also = "allow|addresses|cidr", \
	  .help = "networks of senders, such as `10.0.0.0/8` or `2001:db8::/32`; works with every kind" }
/* clang-format on */

/* ---- flags of serve ---- */

static const struct option flags[] = {
	{ "config", OPTION_TEXT, offsetof(struct serve_options, config), "FILE", NULL, 0, 0, NULL,
	  "the configuration file (YAML); options on the command line take precedence" },
	{ "listen", OPTION_ADDRESS, offsetof(struct serve_options, listen), "ADDR:PORT",
	  "127.0.0.1:8080", 0, 0, NULL,
	  "listening address, IPv4 or [IPv6]; port 0 picks a free port" },
	{ "admin", OPTION_UNIX, offsetof(struct serve_options, admin), "ADDR:PORT",
	  "127.0.0.1:8081", 0, 0, NULL,
	  "listening address of the admin API; `unix:/PATH`: a socket that only this user can open; `none`: disabled. An address that other machines can reach needs admin.token" },
	{ "resp", OPTION_LISTEN, offsetof(struct serve_options, resp), "ADDR:PORT", "none", 0, 0,
	  NULL,
	  "listening address for Redis clients (docs/redis-door.md); `none`: disabled. An address that other machines can reach needs resp.password" },
	{ "resp-scope", OPTION_TEXT, offsetof(struct serve_options, resp_scope), "NAME", "resp", 0,
	  0, NULL, "scope of the keys of the Redis door; each scope has its own keys" },
	{ "resp-tls", OPTION_CHOICE, offsetof(struct serve_options, resp_tls), "USE", "auto", 0, 0,
	  "auto|off", "auto: use TLS if --tls-cert is given; off: never" },
	{ "resp-max-value", OPTION_SIZE, offsetof(struct serve_options, resp_max_value), "SIZE",
	  "64KiB", 1024, 1u << 20, NULL, "largest value; a larger one gets an error reply" },
	{ "resp-idle", OPTION_DURATION, offsetof(struct serve_options, resp_idle_ms), "TIME", "0s",
	  0, DAY_MS, NULL, "a client that is idle for this long is disconnected; 0s: never" },
	{ "data", OPTION_TEXT, offsetof(struct serve_options, local.path), "DIR", "stile-data", 0,
	  0, NULL, "the data folder; created if it does not exist" },
	{ "store", OPTION_TEXT, offsetof(struct serve_options, store), "URL", NULL, 0, 0, NULL,
	  "a store that several gateways share: redis://, rediss://, redis-cluster://, rediss-cluster:// or postgres://; `${NAME}` in it is replaced by that environment variable" },
	{ "window", OPTION_DURATION, offsetof(struct serve_options, window_ms), "TIME", "4d", 1000,
	  3650 * DAY_MS, NULL, "how long a claim is remembered" },
	{ "tls-cert", OPTION_TEXT, offsetof(struct serve_options, tls.cert_file), "FILE", NULL, 0,
	  0, NULL, "certificate chain (PEM); with --tls-key, the listener uses TLS" },
	{ "tls-key", OPTION_TEXT, offsetof(struct serve_options, tls.key_file), "FILE", NULL, 0, 0,
	  NULL, "private key of the certificate (PEM)" },
	{ "tls-client-ca", OPTION_TEXT, offsetof(struct serve_options, tls.client_ca_file), "FILE",
	  NULL, 0, 0, NULL, "CA certificates (PEM) that may sign client certificates" },
	{ "threads", OPTION_COUNT, offsetof(struct serve_options, threads), "N", "1", 1, 64, NULL,
	  "io threads" },
	{ "log", OPTION_CHOICE, offsetof(struct serve_options, log_json), "FORMAT", "text", 0, 0,
	  "text|json", "format of the log lines on standard error" },
	{ "print", OPTION_CHOICE, offsetof(struct serve_options, print_envelope), "FORM", "event",
	  0, 0, "event|envelope",
	  "content of a line on standard output: the event, or an envelope with its ticket" },
	{ "commit", OPTION_CHOICE, offsetof(struct serve_options, commit), "WHERE", "auto", 0, 0,
	  "auto|inline|thread",
	  "who writes the journal: the io thread (inline), a separate thread (thread), or one of them by the speed of the disk (auto)" },
	{ "io-uring", OPTION_CHOICE, offsetof(struct serve_options, io_uring), "USE", "auto", 0, 0,
	  "auto|off",
	  "auto: read and answer many connections in one system call if the kernel allows it; off: do not try" },
	{ "retain", OPTION_DURATION, offsetof(struct serve_options, local.retain_ms), "TIME", "7d",
	  1000, 3650 * DAY_MS, NULL, "how long the events of settled tickets are kept" },
	{ "retain-size", OPTION_SIZE, offsetof(struct serve_options, local.retain_bytes), "SIZE",
	  "16GiB", 64u << 20, UINT64_C(1) << 50, NULL,
	  "largest size of the journal that is kept for them" },
	{ "dead-keep", OPTION_DURATION, offsetof(struct serve_options, local.dead_keep_ms), "TIME",
	  "30d", 1000, 3650 * DAY_MS, NULL, "how long dead letters are kept" },
	{ "max-body", OPTION_SIZE, offsetof(struct serve_options, body_bytes), "SIZE", "1MiB", 1024,
	  4u << 20, NULL, "largest request body, up to 4MiB; a larger one gets 413" },
	{ "max-connections", OPTION_COUNT, offsetof(struct serve_options, connections), "N", "8192",
	  1, 1000000, NULL, "largest number of open connections; further ones get 503" },
	{ "max-per-address", OPTION_COUNT, offsetof(struct serve_options, connections_per_address),
	  "N", "1024", 1, 1000000, NULL,
	  "largest number of open connections from one address; further ones get 429" },
	{ "max-open-tickets", OPTION_COUNT, offsetof(struct serve_options, open_tickets), "N",
	  "10000000", 1, 100000000, NULL,
	  "largest number of open tickets (one for each sink of an event that waits, "
	  "is dead, parked or held); further events get 503" },
	{ "accept-clock", OPTION_FLAG, offsetof(struct serve_options, local.accept_clock), NULL,
	  NULL, 0, 0, NULL,
	  "trust the wall clock once, after an unexplained jump that stile did not follow" },
};

const struct option_table serve_option_table = { flags, ARRAY_LEN(flags) };

/* ---- the gateway: listeners, store, limits ---- */

static const struct config_option gateway_rows[] = {
	{ "listen", FLAG("listen") },
	{ "threads", FLAG("threads") },
	{ "io_uring", FLAG("io-uring") },
	{ "log", FLAG("log") },
	{ "print", FLAG("print"), .reload = true }, /* by the sinks that have it */
	{ "window", FLAG("window"), .reload = true },

	{ "tls", CONFIG_SECTION, .help = "TLS of the listener" },
	{ "tls.cert", FLAG("tls-cert"), .also = "certificate|tls_cert|cert_file" },
	{ "tls.key", FLAG("tls-key"), .also = "tls_key|key_file|private_key" },
	{ "tls.client_ca", FLAG("tls-client-ca"), .also = "ca|ca_file" },

	{ "admin", CONFIG_SECTION, .help = "the listener of the admin API (docs/admin.md)" },
	{ "admin.listen", FLAG("admin"), .also = "admin_listen|address" },
	{ "admin.token", CONFIG_SECRETS,
	  COUNTED(config, admin_tokens, admin_token_count, CONFIG_ADMIN_TOKENS_MAX),
	  .value = "SECRET", .also = "secret|password|bearer",
	  .help = "token that a request must send as `Authorization: Bearer`, or a list of them during a rotation; required if other machines can reach the listener" },

	{ "resp", CONFIG_SECTION, .also = "redis",
	  .help = "the listener for Redis clients (docs/redis-door.md)" },
	{ "resp.listen", FLAG("resp"), .also = "address|port" },
	{ "resp.password", CONFIG_SECRETS,
	  COUNTED(config, resp_passwords, resp_password_count, CONFIG_RESP_PASSWORDS_MAX),
	  .value = "SECRET", .also = "secret|requirepass|auth|token",
	  .help = "password that a client sends with AUTH or HELLO for the user `default`, or a list of them during a rotation; required if other machines can reach the listener" },
	{ "resp.tls", FLAG("resp-tls") },
	{ "resp.scope", FLAG("resp-scope") },
	{ "resp.max_value", FLAG("resp-max-value"), .also = "value" },
	{ "resp.idle", FLAG("resp-idle"), .also = "timeout|idle_timeout" },

	{ "store", CONFIG_SECTION, .bare = "url",
	  .help = "where claims and events are stored: a URL, or the options below" },
	{ "store.url", CONFIG_STORE_URL, FIELD(config, store.url), .value = "URL",
	  .standard = "the local store",
	  .help = "a store that several gateways share (docs/shared-stores.md): `redis://`, `rediss://`, `redis-cluster://`, `rediss-cluster://` or `postgres://`; write secrets as `${NAME}`, or the whole URL as `file:PATH`. Same as `--store`" },
	{ "store.password", CONFIG_SECRET, FIELD(config, store.password), .value = "SECRET",
	  .also = "pass|passwd|secret",
	  .help = "password of the shared store, if the URL has none: `${NAME}` or `file:PATH`" },
	{ "store.lease", CONFIG_MS, FIELD(config, store.lease_ms), .min = 1000, .max = 600000,
	  .value = "TIME", .standard = "30s",
	  .help = "with a shared store: how long a gateway leases an event for delivery; if the gateway dies, another one takes the event after this time" },
	{ "store.local", CONFIG_SECTION, .help = "the local store, in a folder on this machine" },
	{ "store.local.path", FLAG("data"), .also = "data|dir|folder" },
	{ "store.local.retain", FLAG("retain"), .also = "retention" },
	{ "store.local.retain_size", FLAG("retain-size"), .also = "max_size" },
	{ "store.local.dead_keep", FLAG("dead-keep") },
	{ "store.local.commit", FLAG("commit") },

	{ "limits", CONFIG_SECTION, .help = "limits of requests, connections and open tickets" },
	{ "limits.body", FLAG("max-body"), .also = "max_body" },
	{ "limits.connections", FLAG("max-connections"), .also = "max_connections" },
	{ "limits.per_address", FLAG("max-per-address"), .also = "max_per_address" },
	{ "limits.open_tickets", FLAG("max-open-tickets"), .also = "max_open_tickets" },
};

/* ---- claims: the claims API ---- */

static const struct config_option claims_rows[] = {
	{ "claims", CONFIG_SECTION, FIELD(config, claims), .reload = true,
	  .help = "the claims API, for handlers that act themselves (docs/claims.md)" },
	{ "claims.enabled", CONFIG_CHOICE, FIELD(config_claims, enabled), .choices = "auto|on|off",
	  .standard = "auto",
	  .help = "`auto`: enabled with `auth`, or if only this machine can reach the listener; otherwise every request gets 403" },
	{ "claims.window", CONFIG_SECONDS, FIELD(config_claims, door.window_s),
	  .min = WINDOW_MIN_MS, .max = WINDOW_MAX_MS, .value = "TIME",
	  .standard = "that of the top", .also = "ttl|expire",
	  .help = "how long a claim and its outcome are remembered, unless the caller names another time" },
	{ "claims.lease", CONFIG_MS, FIELD(config_claims, door.lease_ms),
	  .min = CLAIMS_LEASE_MIN_MS, .max = CLAIMS_LEASE_MAX_MS, .value = "TIME",
	  .standard = "30s", .also = "timeout|lock",
	  .help = "how long a caller owns a new claim, unless it asks for another time or renews the lease" },
	{ "claims.max_outcome", CONFIG_SIZE, FIELD(config_claims, door.outcome_bytes), .min = 1,
	  .max = CLAIMS_OUTCOME_MAX, .value = "SIZE", .standard = "64KiB", .also = "outcome_size",
	  .help = "largest outcome that a caller may store" },
	{ "claims.auth", CONFIG_SECTION, FIELD(config_claims, auth),
	  .help = "authentication of callers; same options as `auth` of a source" },
	AUTH_ROWS("claims.auth"),
};

/* ---- sources: what comes in, and how claims are made of it ---- */

#define SOURCE "sources.*"
#define CLAIM SOURCE ".claims[]"
#define RECIPE SOURCE ".recipes[]"
#define AUTH SOURCE ".auth"

static const struct config_option source_rows[] = {
	{ "sources", CONFIG_NAMED, POINTED(config, sources, source_count), .reload = true,
	  .value = "NAME: {…}",
	  .help = "where events arrive, by name (letters, digits, `.`, `-`, `_`); the default is one source, `events`, with the preset `auto`" },
	{ SOURCE ".path", CONFIG_PATH, FIELD(config_source, door.path), .value = "PATH",
	  .standard = "/in/NAME", .also = "url|endpoint",
	  .help = "the path to which its events are posted; a path that ends with /* includes the paths below it" },
	{ SOURCE ".preset", CONFIG_PRESET, FIELD(config_source, preset), .value = "NAME",
	  .also = "recipe|type|kind",
	  .help = "a ready recipe for the events of a platform; `claims` beside it are added to those of the preset" },
	{ SOURCE ".window", CONFIG_SECONDS, FIELD(config_source, recipe.window_s),
	  .min = WINDOW_MIN_MS, .max = WINDOW_MAX_MS, .value = "TIME",
	  .standard = "that of the top", .also = "ttl|expire",
	  .help = "how long its claims are remembered" },
	{ SOURCE ".scope", CONFIG_TEXT, FIELD(config_source, recipe.scope), .max = 64,
	  .value = "NAME", .standard = "the source's name",
	  .help = "sources with the same scope share their claims; for acts that can arrive in two ways" },
	{ SOURCE ".mode", CONFIG_CHOICE, FIELD(config_source, recipe.shadow),
	  .choices = "gate|shadow", .standard = "gate",
	  .help = "`shadow`: everything passes, and what would have been dropped is counted and visible" },
	{ SOURCE ".on_conflict", CONFIG_CHOICE, FIELD(config_source, door.on_conflict),
	  .choices = "keep first|let through|reject", .standard = "keep first",
	  .help = "when the same key arrives with other content: hold the second event for a person, deliver it, or reject it with 422" },
	{ SOURCE ".store_away", CONFIG_CHOICE, FIELD(config_source, door.spool),
	  .choices = "closed|spool", .standard = "closed",
	  .help = "while the shared store is unreachable: closed answers 503 and the sender retries; spool answers 202, keeps the event on this machine and decides it when the store is reachable again" },
	{ SOURCE ".compare", CONFIG_CHOICE, FIELD(config_source, recipe.compare_values),
	  .choices = "text|value", .standard = "text",
	  .help = "how content is compared (`on_conflict`): as text without blanks, or as a JSON value, which takes more CPU" },
	{ SOURCE ".on_replay", CONFIG_CHOICE, FIELD(config_source, recipe.replay_passes),
	  .choices = "gate|pass", .standard = "gate",
	  .help = "replays from an EventBridge archive: treat them like any event, or let them pass without claims" },
	{ SOURCE ".batch", CONFIG_CHOICE, FIELD(config_source, recipe.batch),
	  .choices = "auto|never", .standard = "auto",
	  .help = "auto: one request may hold several events (NDJSON, JSON arrays, Records); never: every request is one event" },
	{ SOURCE ".ack", CONFIG_CHOICE, FIELD(config_source, ack_delivered),
	  .choices = "accepted|delivered", .standard = "accepted",
	  .help = "when a sender gets its answer: when the event is durable, or when every sink has an outcome (for senders that should do the retries themselves)" },
	{ SOURCE ".wait", CONFIG_MS, FIELD(config_source, door.wait_ms), .min = 1, .max = 60000,
	  .value = "TIME", .standard = "10s",
	  .help = "how long an answer waits with `ack: delivered`; after that the sender gets 503, and the delivery continues" },

	{ AUTH, CONFIG_SECTION, FIELD(config_source, auth), .help = "authentication of senders" },
	AUTH_ROWS(AUTH),

	{ SOURCE ".id", CONFIG_PART, FIELD(config_source, plain.id), .value = "PART",
	  .help = "the part with the sender's id of the event (with `claims`, without `preset`)" },
	{ SOURCE ".type", CONFIG_PART, FIELD(config_source, plain.type), .value = "PART",
	  .help = "the part with the type of the event" },
	{ SOURCE ".entity", CONFIG_PART, FIELD(config_source, plain.entity), .value = "PART",
	  .help = "the part that names the entity: the order, user or call that the event is about" },
	{ SOURCE ".time", CONFIG_PART, FIELD(config_source, plain.time), .value = "PART",
	  .help = "the part with the time of the event" },
	{ SOURCE ".content", CONFIG_PART, FIELD(config_source, plain.content), .value = "PART",
	  .help = "the part that is compared when a key arrives again (`on_conflict`); without it, the body" },
	{ SOURCE ".correlation", CONFIG_PART, FIELD(config_source, plain.correlation),
	  .value = "PART", .help = "the part with the sender's correlation id" },

	{ SOURCE ".claims", CONFIG_LIST, INSIDE(config_source, plain.claims, plain.claim_count),
	  .value = "[{…}, …]",
	  .help = "the claims that an event takes, at most 4; each has one of `once`, `content`, `newest`" },
	{ CLAIM ".once", CONFIG_PARTS,
	  COUNTED(recipe_claim_spec, parts, part_count, RECIPE_SPEC_PARTS_MAX), .value = "[PART…]",
	  .help = "two events with the same values of these parts are the same" },
	{ CLAIM ".content", CONFIG_CONTENT, .value = "body | [PART…] | {except: [PART…]}",
	  .help = "two events with the same content are the same, under any id: the canonical body, some parts, or all members except some" },
	{ CLAIM ".newest", CONFIG_SECTION,
	  .help = "drop events that are older than the last one of the same entity" },
	{ CLAIM ".newest.entity", CONFIG_PARTS,
	  COUNTED(recipe_claim_spec, parts, part_count, RECIPE_SPEC_PARTS_MAX),
	  .value = "PART | [PART…]", .help = "the parts that name the entity" },
	{ CLAIM ".newest.time", CONFIG_PART, FIELD(recipe_claim_spec, time), .value = "PART",
	  .help = "the part with the time: ISO 8601, or a number of seconds, milliseconds, microseconds or nanoseconds" },
	{ CLAIM ".newest.equal", CONFIG_CHOICE, FIELD(recipe_claim_spec, equal_drops),
	  .choices = "pass|drop", .standard = "pass",
	  .help = "whether an event with the same time as the last one passes" },
	{ CLAIM ".newest.rank", CONFIG_SECTION,
	  .help = "decides between events with the same time" },
	{ CLAIM ".newest.rank.part", CONFIG_PART, FIELD(recipe_claim_spec, rank), .value = "PART",
	  .help = "the part with the state" },
	{ CLAIM ".newest.rank.order", CONFIG_TEXTS,
	  COUNTED(recipe_claim_spec, ranks, rank_count, RECIPE_SPEC_RANKS_MAX), .value = "[WORD…]",
	  .help = "the values of that part, from the earliest state to the latest" },
	{ CLAIM ".name", CONFIG_TEXT, FIELD(recipe_claim_spec, name), .max = 32, .value = "NAME",
	  .standard = "the claim's own text",
	  .help = "name of the claim in answers; it is part of the digest, so a renamed claim starts with an empty memory" },
	{ CLAIM ".window", CONFIG_SECONDS, FIELD(recipe_claim_spec, window_s), .min = WINDOW_MIN_MS,
	  .max = WINDOW_MAX_MS, .value = "TIME", .standard = "that of the source",
	  .also = "ttl|expire", .help = "how long the claim is remembered" },
	{ CLAIM ".missing", CONFIG_CHOICE, FIELD(recipe_claim_spec, missing),
	  .choices = "reject|skip|digest", .standard = "reject",
	  .help = "when a part is missing: reject the event with 400, skip this claim, or use a digest of the body" },
	{ CLAIM ".when", CONFIG_WHEN,
	  COUNTED(recipe_claim_spec, conditions, condition_count, RECIPE_SPEC_CONDITIONS_MAX),
	  .value = "{PART: PATTERN, …}",
	  .help = "only events that match all of these conditions take the claim" },
	{ CLAIM ".mode", CONFIG_CHOICE, FIELD(recipe_claim_spec, shadow), .choices = "gate|shadow",
	  .standard = "gate",
	  .help = "`shadow`: what the claim would drop is counted, and passes" },

	{ SOURCE ".recipes", CONFIG_LIST, POINTED(config_source, recipe.cases, recipe.case_count),
	  .value = "[{…}, …]", .also = "cases|rules",
	  .help = "rules for events of several kinds; the first one whose `when` matches is used" },
	{ RECIPE ".name", CONFIG_STRING, FIELD(recipe_case_spec, name), .max = 64, .value = "NAME",
	  .help = "name of the rule, for people" },
	{ RECIPE ".when", CONFIG_WHEN,
	  COUNTED(recipe_case_spec, conditions, condition_count, RECIPE_SPEC_CONDITIONS_MAX),
	  .value = "{PART: PATTERN, …}",
	  .help = "conditions that an event must match; without it, the rule is for all events" },
	{ RECIPE ".id", CONFIG_PART, FIELD(recipe_case_spec, id), .value = "PART",
	  .help = "same as the option of the source" },
	{ RECIPE ".type", CONFIG_PART, FIELD(recipe_case_spec, type), .value = "PART",
	  .help = "same as the option of the source" },
	{ RECIPE ".entity", CONFIG_PART, FIELD(recipe_case_spec, entity), .value = "PART",
	  .help = "same as the option of the source" },
	{ RECIPE ".time", CONFIG_PART, FIELD(recipe_case_spec, time), .value = "PART",
	  .help = "same as the option of the source" },
	{ RECIPE ".content", CONFIG_PART, FIELD(recipe_case_spec, content), .value = "PART",
	  .help = "same as the option of the source" },
	{ RECIPE ".correlation", CONFIG_PART, FIELD(recipe_case_spec, correlation), .value = "PART",
	  .help = "same as the option of the source" },
	{ RECIPE ".claims", CONFIG_LIST, INSIDE(recipe_case_spec, claims, claim_count),
	  .rows_of = CLAIM, .value = "[{…}, …]", .help = "same as the option of the source" },
};

/* ---- sinks: where events go, and how ---- */

#define SINK "sinks.*"

static const struct config_option sink_rows[] = {
	{ "sinks", CONFIG_NAMED, POINTED(config, sinks, sink_count), .reload = true,
	  .value = "NAME: stdout | {…}", .standard = "{ stdout: stdout }",
	  .also = "output|outputs|destinations",
	  .help = "where new events go, by name (not `none` or `caller`); each has one of `stdout`, `http`, `file`, `postgres` or `stile`" },
	{ SINK ".stdout", CONFIG_CHOICE, FIELD(config_sink, print), .sinks = CONFIG_OF_STDOUT,
	  .choices = "event|envelope", .standard = "that of `print`",
	  .help = "print events, one per line; `NAME: stdout` is the short form" },
	{ SINK ".http", CONFIG_URL, FIELD(config_sink, http.url), .sinks = CONFIG_OF_HTTP,
	  .value = "URL", .also = "url|uri|endpoint|webhook",
	  .help = "send events to this URL as HTTP requests; path and query may contain placeholders for values of the event: `{id}`, `{$.order.id}`" },
	{ SINK ".file", CONFIG_TEXT, FIELD(config_sink, file.path), .sinks = CONFIG_OF_FILE,
	  .value = "PATH", .also = "path|filename",
	  .help = "append events to this file, one per line; `{date}` in its name is the day in UTC" },
	{ SINK ".print", CONFIG_CHOICE, FIELD(config_sink, print), .sinks = CONFIG_OF_FILE,
	  .choices = "event|envelope", .standard = "that of `print`", .also = "format|envelope",
	  .help = "content of a line: the event, or an envelope with its ticket" },
	{ SINK ".sync", CONFIG_CHOICE, FIELD(config_sink, file.no_sync), .sinks = CONFIG_OF_FILE,
	  .choices = "batch|none", .standard = "batch", .also = "fsync",
	  .help = "batch: an event is done when its line is on disk; none: when its line is written" },
	{ SINK ".rotate", CONFIG_SECTION, .sinks = CONFIG_OF_FILE,
	  .help = "when the file is renamed to FILE.TIME and a new one begins" },
	{ SINK ".rotate.size", CONFIG_SIZE, FIELD(config_sink, file.rotate_bytes), .min = 1024,
	  .max = UINT64_C(1) << 50, .value = "SIZE", .also = "max_size|bytes",
	  .help = "before the file exceeds this size; a single batch of events may exceed it" },
	{ SINK ".rotate.every", CONFIG_MS, FIELD(config_sink, file.rotate_ms), .min = 1000,
	  .max = 366 * DAY_MS, .value = "TIME", .also = "age|interval|max_age",
	  .help = "with the first event of a new period, in UTC: `1h` ends on the full hour, `1d` at midnight" },
	{ SINK ".rotate.keep", CONFIG_COUNT, FIELD(config_sink, file.keep), .min = 0,
	  .max = 1000000, .value = "N", .standard = "0", .also = "count|files|max_files|backups",
	  .help = "number of rotated files to keep (with `{date}` also those of earlier days); 0 keeps all" },
	{ SINK ".postgres", CONFIG_URL, FIELD(config_sink, postgres.conninfo),
	  .sinks = CONFIG_OF_POSTGRES, .value = "CONNINFO", .also = "postgresql|database|dsn|pg",
	  .help = "write each event to this database exactly once: `postgresql://USER@HOST/DATABASE`, or `host=… dbname=…`" },
	{ SINK ".password", CONFIG_SECRET, FIELD(config_sink, postgres.password),
	  .sinks = CONFIG_OF_POSTGRES, .value = "SECRET", .also = "pass|passwd",
	  .help = "password of the database user: `${NAME}` or `file:PATH`; without it, the password of the connection string, of PGPASSWORD or of ~/.pgpass" },
	{ SINK ".statement", CONFIG_TEXT, FIELD(config_sink, postgres.statement),
	  .sinks = CONFIG_OF_POSTGRES, .value = "SQL",
	  .standard = "a row of `table` with the event", .also = "sql|query|insert",
	  .help = "the statement for each event, executed in one transaction with its key: `INSERT INTO orders (id, total) VALUES ({id}, {$.total})`; placeholders become parameters" },
	{ SINK ".table", CONFIG_TEXT, FIELD(config_sink, postgres.table),
	  .sinks = CONFIG_OF_POSTGRES, .max = 127, .value = "NAME",
	  .standard = "stile_events; with `statement` stile_effects",
	  .help = "the table for events or, with `statement`, for the keys of delivered events; `schema.name` is possible" },
	{ SINK ".key", CONFIG_TEXT, FIELD(config_sink, postgres.key), .sinks = CONFIG_OF_POSTGRES,
	  .value = "TEMPLATE", .standard = "{ticket}", .also = "effect_key|idempotency_key",
	  .help = "the key of an event in the table; if several gateways with separate stores write to one table, each needs its own, such as `eu1-{ticket}`" },
	{ SINK ".create", CONFIG_CHOICE, FIELD(config_sink, postgres.no_create),
	  .sinks = CONFIG_OF_POSTGRES, .choices = "yes|no", .standard = "yes",
	  .help = "whether to create `table` if it does not exist" },
	{ SINK ".stile", CONFIG_URL, FIELD(config_sink, http.url), .sinks = CONFIG_OF_STILE,
	  .value = "URL", .also = "gateway|peer",
	  .help = "send events to a source of another stile, many in one request, and read its verdict on each: `https://HOST/in/NAME`" },
	{ SINK ".method", CONFIG_CHOICE, FIELD(config_sink, http.method), .sinks = CONFIG_OF_HTTP,
	  .choices = "POST|PUT|PATCH", .standard = "POST", .help = "HTTP method of the requests" },
	{ SINK ".headers", CONFIG_HEADERS, FIELD(config_sink, http.headers),
	  .sinks = CONFIG_OF_REQUESTS, .value = "{NAME: VALUE, …}", .also = "header",
	  .help = "additional headers; a value may contain placeholders, or be a secret: `${NAME}`, `file:PATH`" },
	{ SINK ".body", CONFIG_TEXT, FIELD(config_sink, http.body), .sinks = CONFIG_OF_HTTP,
	  .value = "TEMPLATE", .standard = "the event, byte for byte", .also = "template|payload",
	  .help = "a body with placeholders for values of the event" },
	{ SINK ".body_form", CONFIG_CHOICE, FIELD(config_sink, http.body_is_form),
	  .sinks = CONFIG_OF_HTTP, .choices = "json|form", .standard = "json",
	  .help = "format of the template in `body`" },
	{ SINK ".batch", CONFIG_CHOICE, FIELD(config_sink, http.batch), .sinks = CONFIG_OF_HTTP,
	  .choices = "none|ndjson|array", .standard = "none",
	  .help = "send many events in one request, as lines or as a JSON array; the answer counts for each of them" },
	{ SINK ".batch_events", CONFIG_COUNT, FIELD(config_sink, http.batch_events),
	  .sinks = CONFIG_OF_REQUESTS, .min = 1, .max = HTTP_BATCH_MAX, .value = "N",
	  .standard = "100", .help = "largest number of events in one request" },
	{ SINK ".batch_size", CONFIG_SIZE, FIELD(config_sink, http.batch_bytes),
	  .sinks = CONFIG_OF_REQUESTS, .min = 1024, .max = 16u << 20, .value = "SIZE",
	  .standard = "1MiB", .help = "largest size of one request; a larger event is sent alone" },
	{ SINK ".timeout", CONFIG_MS, FIELD(config_sink, http.timeout_ms),
	  .sinks = CONFIG_OF_REQUESTS | CONFIG_OF_POSTGRES, .min = 10, .max = HOUR_MS,
	  .value = "TIME", .standard = "30s",
	  .help = "time limit of a request, from its beginning to the complete answer; with `postgres`, of a transaction" },
	{ SINK ".connect_timeout", CONFIG_MS, FIELD(config_sink, http.connect_ms),
	  .sinks = CONFIG_OF_REQUESTS | CONFIG_OF_POSTGRES, .min = 10, .max = HOUR_MS,
	  .value = "TIME", .standard = "10s",
	  .help = "time limit for name resolution, connection and TLS" },
	{ SINK ".keep_alive", CONFIG_MS, FIELD(config_sink, http.idle_ms),
	  .sinks = CONFIG_OF_REQUESTS, .min = 0, .max = HOUR_MS, .value = "TIME", .standard = "4s",
	  .help = "how long an idle connection is kept, in whole seconds; set it below the limit of the server; 0s: a new connection for each request" },
	{ SINK ".http2", CONFIG_CHOICE, FIELD(config_sink, http.http1), .sinks = CONFIG_OF_REQUESTS,
	  .choices = "auto|never", .standard = "auto",
	  .help = "auto: use HTTP/2 over TLS if the server offers it" },
	{ SINK ".correlation_header", CONFIG_TEXT, FIELD(config_sink, http.correlation_header),
	  .sinks = CONFIG_OF_REQUESTS, .max = 64, .value = "NAME", .standard = "X-Correlation-Id",
	  .help = "the header for the correlation id of the event, if it has one" },
	{ SINK ".sign", CONFIG_SECRETS,
	  COUNTED(config_sink, http.sign, http.sign_count, HTTP_SECRETS_MAX),
	  .sinks = CONFIG_OF_REQUESTS, .value = "SECRET", .also = "secret|signing_secret|secrets",
	  .help = "sign each request as Standard Webhooks prescribes: `whsec_…`, or a list of up to 5 while they are rotated, the newest first" },
	{ SINK ".allow", CONFIG_NETWORKS,
	  COUNTED(config_sink, http.allow, http.allow_count, HTTP_ALLOW_MAX),
	  .sinks = CONFIG_OF_REQUESTS, .value = "[CIDR…]", .also = "networks|allow_networks",
	  .help = "networks that are not public and may be reached, such as `10.0.0.0/8` or `127.0.0.0/8`" },
	{ SINK ".tls", CONFIG_SECTION, .sinks = CONFIG_OF_REQUESTS,
	  .help = "TLS options of an https sink" },
	{ SINK ".tls.ca", CONFIG_STRING, FIELD(config_sink, http.ca_file), .value = "FILE",
	  .standard = "the system's", .also = "ca_file|client_ca",
	  .help = "CA certificates (PEM) that may sign the certificate of the server" },
	{ SINK ".tls.cert", CONFIG_STRING, FIELD(config_sink, http.cert_file), .value = "FILE",
	  .also = "certificate|cert_file",
	  .help = "our client certificate with its chain (PEM), if the server requires one" },
	{ SINK ".tls.key", CONFIG_STRING, FIELD(config_sink, http.key_file), .value = "FILE",
	  .also = "key_file|private_key", .help = "private key of the client certificate (PEM)" },
	{ SINK ".tls.name", CONFIG_TEXT, FIELD(config_sink, http.server_name), .max = 253,
	  .value = "NAME", .standard = "the URL's host", .also = "server_name|sni",
	  .help = "the name that the certificate of the server must have" },
	{ SINK ".retry", CONFIG_SECTION,
	  .help = "when a failed attempt is repeated: after a random delay between 0s and `first`, then twice, four times … as long, up to `max`" },
	{ SINK ".retry.first", CONFIG_MS, FIELD(config_sink, policy.retry.first_ms), .min = 1,
	  .max = DAY_MS, .value = "TIME", .standard = "1s", .also = "initial|min|delay|interval",
	  .help = "longest delay after the first attempt" },
	{ SINK ".retry.max", CONFIG_MS, FIELD(config_sink, policy.retry.max_ms), .min = 1,
	  .max = 30 * DAY_MS, .value = "TIME", .standard = "10m", .also = "max_delay|cap",
	  .help = "longest delay between two attempts" },
	{ SINK ".retry.for", CONFIG_MS, FIELD(config_sink, policy.retry.for_ms), .min = 0,
	  .max = 365 * DAY_MS, .value = "TIME", .standard = "3d", .also = "max_age|duration",
	  .help = "an event that is older than this when an attempt fails becomes a dead letter; 0s: never" },
	{ SINK ".retry.attempts", CONFIG_COUNT, FIELD(config_sink, policy.retry.attempts), .min = 0,
	  .max = 1000000, .value = "N", .standard = "0", .also = "max_attempts|limit|count",
	  .help = "number of failed attempts after which an event becomes a dead letter; 0: no limit" },
	{ SINK ".retry.on", CONFIG_TEXTS, COUNTED(config_sink, rules, rule_count, JUDGE_RULES_MAX),
	  .value = "[STATUS…]", .standard = "401, 407, 408, 409, 425, 429, 5xx",
	  .also = "statuses|status|codes",
	  .help = "which answers are retried: `429`, `500-599`, `>=500`; `!501` never; if all rules begin with `!`, the default applies to all other statuses" },
	{ SINK ".retry_after_max", CONFIG_MS, FIELD(config_sink, policy.retry_after_max_ms),
	  .min = 0, .max = 30 * DAY_MS, .value = "TIME", .standard = "1h",
	  .help = "longest pause that a sink may ask for (Retry-After)" },
	{ SINK ".on_unknown", CONFIG_CHOICE, FIELD(config_sink, policy.on_unknown),
	  .choices = "retry|probe|park", .standard = "retry", .also = "unknown",
	  .help = "when a request was sent and no answer arrived: send it again with the same key, first ask the destination whether it had its effect (`probe`), or leave it to a person" },
	{ SINK ".probe", CONFIG_URL, FIELD(config_sink, http.probe), .sinks = CONFIG_OF_HTTP,
	  .value = "URL", .also = "probe_url",
	  .help = "URL of a GET, with the same headers, that answers whether an event had its effect: 2xx yes, 404 and 410 no" },
	{ SINK ".breaker", CONFIG_SECTION, .also = "circuit_breaker",
	  .help = "the circuit breaker: stops attempts to a sink that fails" },
	{ SINK ".breaker.failures", CONFIG_COUNT, FIELD(config_sink, policy.breaker.failures),
	  .min = 0, .max = 1000000, .value = "N", .standard = "10",
	  .help = "number of failures in a row that open it; 0: this does not count" },
	{ SINK ".breaker.percent", CONFIG_COUNT, FIELD(config_sink, policy.breaker.per_cent),
	  .min = 0, .max = 100, .value = "N", .standard = "50",
	  .help = "percentage of failed attempts within `window` that opens it; 0: this does not count" },
	{ SINK ".breaker.calls", CONFIG_COUNT, FIELD(config_sink, policy.breaker.calls), .min = 1,
	  .max = 1000000, .value = "N", .standard = "20",
	  .help = "number of attempts within `window` before `percent` counts" },
	{ SINK ".breaker.window", CONFIG_MS, FIELD(config_sink, policy.breaker.window_ms),
	  .min = 100, .max = HOUR_MS, .value = "TIME", .standard = "10s",
	  .help = "the period over which `percent` is measured" },
	{ SINK ".breaker.open", CONFIG_MS, FIELD(config_sink, policy.breaker.first_ms), .min = 1,
	  .max = DAY_MS, .value = "TIME", .standard = "1s",
	  .help = "how long it stays open the first time; each further time twice as long, up to `open_max`" },
	{ SINK ".breaker.open_max", CONFIG_MS, FIELD(config_sink, policy.breaker.max_ms), .min = 1,
	  .max = DAY_MS, .value = "TIME", .standard = "1m",
	  .help = "longest time that it stays open" },
	{ SINK ".breaker.probes", CONFIG_COUNT, FIELD(config_sink, policy.breaker.probes), .min = 1,
	  .max = 1000, .value = "N", .standard = "1",
	  .help = "number of concurrent test attempts while it is half-open" },
	{ SINK ".breaker.successes", CONFIG_COUNT, FIELD(config_sink, policy.breaker.successes),
	  .min = 1, .max = 1000, .value = "N", .standard = "3",
	  .help = "number of successful test attempts in a row that close it" },
	{ SINK ".concurrency", CONFIG_COUNT, FIELD(config_sink, policy.limiter.most),
	  .sinks = CONFIG_OF_REQUESTS, .min = 1, .max = 4096, .value = "N", .standard = "64",
	  .also = "parallel|workers|max_concurrency",
	  .help = "largest number of concurrent requests" },
	{ SINK ".adapt", CONFIG_CHOICE, FIELD(config_sink, policy.limiter.fixed),
	  .sinks = CONFIG_OF_REQUESTS, .choices = "yes|no", .standard = "yes",
	  .help = "whether to send fewer requests at once when the sink is slow or overloaded (429, 503)" },
	{ SINK ".rate", CONFIG_RATE, FIELD(config_sink, policy.limiter), .value = "N/s | N/m | N/h",
	  .also = "rate_limit|max_rate",
	  .help = "largest number of attempts in a second, minute or hour" },
	{ SINK ".burst", CONFIG_COUNT, FIELD(config_sink, policy.limiter.burst), .min = 1,
	  .max = 1000000, .value = "N", .standard = "a tenth of a second of `rate`",
	  .help = "number of attempts allowed at once after a pause" },
	{ SINK ".order", CONFIG_SECTION,
	  .help = "what happens to the other events of an entity when the first one cannot be delivered (`order_by` of routes)" },
	{ SINK ".order.stuck", CONFIG_CHOICE, FIELD(config_sink, steps_aside),
	  .choices = "wait|aside", .standard = "wait",
	  .help = "wait: the others wait for it; aside: it becomes a dead letter (parked, if its outcome is unknown) and they continue" },
	{ SINK ".order.attempts", CONFIG_COUNT, FIELD(config_sink, policy.stuck.attempts), .min = 0,
	  .max = 1000000, .value = "N", .standard = "10",
	  .help = "with `aside`: number of failed attempts after which it becomes a dead letter; 0: no limit" },
	{ SINK ".order.for", CONFIG_MS, FIELD(config_sink, policy.stuck.for_ms), .min = 0,
	  .max = 365 * DAY_MS, .value = "TIME", .standard = "1h",
	  .help = "with `aside`: age at which it becomes a dead letter; 0s: no limit" },
	{ SINK ".dead_letter", CONFIG_TEXT, FIELD(config_sink, dead_letter), .max = 64,
	  .value = "SINK", .also = "dlq|dead_letter_queue",
	  .help = "a sink that gets the dead letters of this one, each as a new event" },
	{ SINK ".dead_letters", CONFIG_CHOICE, FIELD(config_sink, policy.forget_dead),
	  .choices = "keep|forget", .standard = "keep",
	  .help = "whether dead letters are kept (`store.local.dead_keep`)" },
};

/* ---- routes: which events go where ---- */

#define ROUTE "routes[]"

static const struct config_option route_rows[] = {
	{ "routes", CONFIG_LIST, POINTED(config, routes, route_count), .reload = true,
	  .value = "[{…}, …]", .standard = "everything goes to every sink",
	  .help = "which events go where; an event goes to the sinks of every route that matches, to each once" },
	{ ROUTE ".from", CONFIG_TEXTS,
	  COUNTED(config_route, from, from_count, CONFIG_ROUTE_NAMES_MAX),
	  .value = "SOURCE | [SOURCE…]", .standard = "all", .also = "source|sources",
	  .help = "the sources that the route applies to" },
	{ ROUTE ".type", CONFIG_TEXT, FIELD(config_route, type), .max = 256, .value = "PATTERN",
	  .standard = "any",
	  .help = "pattern that the type of the event must match; `*` stands for any characters, case matters" },
	{ ROUTE ".when", CONFIG_WHEN,
	  COUNTED(config_route, conditions, condition_count, RECIPE_SPEC_CONDITIONS_MAX),
	  .value = "{PART: PATTERN, …}", .also = "if|match|filter",
	  .help = "conditions that must all match, as in recipes; `type`, `id`, `entity` and `source` are the values that the source read" },
	{ ROUTE ".to", CONFIG_TEXTS, COUNTED(config_route, to, to_count, CONFIG_ROUTE_NAMES_MAX),
	  .value = "SINK | [SINK…] | none", .also = "sink|sinks|target",
	  .help = "the sinks that get the event; `none`: decide and do not deliver" },
	{ ROUTE ".order_by", CONFIG_PART, FIELD(config_route, order_by),
	  .value = "entity | id | type | PART", .also = "order|key|group_by",
	  .help = "events with the same value are delivered one after the other, in the order in which they arrived; others in parallel" },
};

/* ---- the table ---- */

struct config_rows {
	const struct config_option *rows;
	size_t count;
};

static const struct config_rows parts[] = {
	{ gateway_rows, ARRAY_LEN(gateway_rows) }, { claims_rows, ARRAY_LEN(claims_rows) },
	{ source_rows, ARRAY_LEN(source_rows) },   { sink_rows, ARRAY_LEN(sink_rows) },
	{ route_rows, ARRAY_LEN(route_rows) },
};

const struct config_option *config_table_row(size_t index)
{
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		if (index < parts[i].count)
			return &parts[i].rows[index];
		index -= parts[i].count;
	}
	return NULL;
}

bool config_option_in(const struct config_option *option, const char *section,
                      struct span *ret_name)
{
	size_t len = strlen(section);
	const char *name = option->path;
	if (len > 0) {
		if (strncmp(name, section, len) != 0 || name[len] != '.')
			return false;
		name += len + 1;
	}
	if (strpbrk(name, ".["))
		return false;
	if (ret_name)
		*ret_name = span_str(name);
	return true;
}

const struct config_option *config_option_find(const char *section, struct span name)
{
	const struct config_option *row;
	for (size_t i = 0; (row = config_table_row(i)); i++) {
		struct span own;
		if (config_option_in(row, section, &own) && span_eq(own, name))
			return row;
	}
	return NULL;
}

bool config_option_reloads(const struct config_option *option)
{
	struct span top = span_of(option->path, strcspn(option->path, ".["));
	return option->reload || config_option_find("", top)->reload;
}

const struct option *config_option_flag(const struct config_option *option)
{
	const struct option *flag = NULL;
	if (option->flag) {
		flag = option_find(serve_option_table, span_str(option->flag));
		CHECK(flag); /* the table names flags of serve only */
	}
	return flag;
}

const char *config_option_help(const struct config_option *option)
{
	const struct option *flag = config_option_flag(option);
	return flag ? flag->help : option->help;
}

const char *config_option_standard(const struct config_option *option)
{
	const struct option *flag = config_option_flag(option);
	return flag ? flag->standard : option->standard;
}

const char *config_option_value(const struct config_option *option)
{
	const char *choices = config_option_choices(option);
	if (choices)
		return choices;
	const struct option *flag = config_option_flag(option);
	return flag ? flag->value : option->value;
}

const char *config_option_choices(const struct config_option *option)
{
	const struct option *flag = config_option_flag(option);
	return flag ? flag->choices : option->choices;
}
