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
	  .help = "the header that holds the key (`header`) or the signature (`hmac`)" }, \
	{ AT ".user", CONFIG_TEXT, FIELD(auth_spec, user), .max = 128, .value = "NAME", \
	  .also = "username|login", .help = "the user of `basic`" }, \
	{ AT ".secret", CONFIG_SECRETS, \
	  COUNTED(auth_spec, secrets, secret_count, AUTH_SECRETS_MAX), .value = "SECRET", \
	  .also = "secrets|password|token|key|api_key", \
	  .help = "the key, password, token or signing secret, or a list of up to 5 while they are rotated; `${NAME}` or `file:PATH`" }, \
	{ AT ".algorithm", CONFIG_CHOICE, FIELD(auth_spec, algorithm), \
	  .choices = "sha256|sha1|sha512", .standard = "sha256", .help = "of `hmac`" }, \
	{ AT ".encoding", CONFIG_CHOICE, FIELD(auth_spec, encoding), .choices = "hex|base64", \
	  .standard = "hex", .help = "of the signature of `hmac`" }, \
	{ AT ".prefix", CONFIG_TEXT, FIELD(auth_spec, prefix), .max = 64, .value = "TEXT", \
	  .help = "what stands before the signature of `hmac`, such as `sha256=`" }, \
	{ AT ".signed", CONFIG_TEXTS, \
	  COUNTED(auth_spec, signed_parts, signed_count, AUTH_SIGNED_MAX), .value = "[PART…]", \
	  .standard = "[body]", \
	  .help = "what `hmac` signs, joined in this order: `body`, `header:NAME`, `path`, `method`, `url`, `const:TEXT`" }, \
	{ AT ".timestamp", CONFIG_TEXT, FIELD(auth_spec, timestamp), .max = 128, \
	  .value = "PART", \
	  .help = "the part that holds the time of `hmac` in unix seconds, such as `header:X-Time`" }, \
	{ AT ".tolerance", CONFIG_SECONDS, FIELD(auth_spec, tolerance_s), .min = 1000, \
	  .max = DAY_MS, .value = "TIME", .standard = "5m", \
	  .help = "how far the time of a signature may be off" }, \
	{ AT ".public_url", CONFIG_TEXT, FIELD(auth_spec, public_url), .max = 512, \
	  .value = "URL", \
	  .help = "how senders reach stile, `https://HOST[:PORT][/PREFIX]`, if a proxy changes it (`twilio`, and `hmac` that signs the url)" }, \
	{ AT ".names", CONFIG_TEXTS, COUNTED(auth_spec, names, name_count, AUTH_NETWORKS_MAX), \
	  .value = "[NAME…]", \
	  .help = "whose client certificates are taken (`certificate`); without it, any that `tls.client_ca` signed" }, \
	{ AT ".networks", CONFIG_NETWORKS, \
	  COUNTED(auth_spec, networks, network_count, AUTH_NETWORKS_MAX), .value = "[CIDR…]", \
	  .also = "allow|addresses|cidr", \
	  .help = "the addresses that may send, such as `10.0.0.0/8` or `2001:db8::/32`, with any kind" }
/* clang-format on */

/* ---- flags of serve ---- */

static const struct option flags[] = {
	{ "config", OPTION_TEXT, offsetof(struct serve_options, config), "FILE", NULL, 0, 0, NULL,
	  "the configuration file (YAML); options given here count more than it" },
	{ "listen", OPTION_ADDRESS, offsetof(struct serve_options, listen), "ADDR:PORT",
	  "127.0.0.1:8080", 0, 0, NULL,
	  "where to listen, IPv4 or [IPv6]; port 0 picks a free one" },
	{ "admin", OPTION_UNIX, offsetof(struct serve_options, admin), "ADDR:PORT",
	  "127.0.0.1:8081", 0, 0, NULL,
	  "where the admin API listens; `unix:/PATH`: at a socket that only this user can open; `none`: nowhere. An address that others can reach needs admin.token" },
	{ "resp", OPTION_LISTEN, offsetof(struct serve_options, resp), "ADDR:PORT", "none", 0, 0,
	  NULL,
	  "where clients of Redis are answered (docs/redis-door.md); `none`: nowhere. An address that others can reach needs resp.password" },
	{ "resp-scope", OPTION_TEXT, offsetof(struct serve_options, resp_scope), "NAME", "resp", 0,
	  0, NULL, "its keys are those of this scope: another one, other keys" },
	{ "resp-tls", OPTION_CHOICE, offsetof(struct serve_options, resp_tls), "USE", "auto", 0, 0,
	  "auto|off", "auto: with TLS if --tls-cert is given; off: never" },
	{ "resp-max-value", OPTION_SIZE, offsetof(struct serve_options, resp_max_value), "SIZE",
	  "64KiB", 1024, 1u << 20, NULL, "largest value; beyond it the reply is an error" },
	{ "resp-idle", OPTION_DURATION, offsetof(struct serve_options, resp_idle_ms), "TIME", "0s",
	  0, DAY_MS, NULL, "an idle client is disconnected after this time; 0s: never" },
	{ "data", OPTION_TEXT, offsetof(struct serve_options, local.path), "DIR", "stile-data", 0,
	  0, NULL, "the data folder; made if it is not there" },
	{ "store", OPTION_TEXT, offsetof(struct serve_options, store), "URL", NULL, 0, 0, NULL,
	  "a store that several gateways share: redis://, rediss://, redis-cluster://, rediss-cluster:// or postgres://; `${NAME}` in it is that variable" },
	{ "window", OPTION_DURATION, offsetof(struct serve_options, window_ms), "TIME", "4d", 1000,
	  3650 * DAY_MS, NULL, "how long a claim is remembered" },
	{ "tls-cert", OPTION_TEXT, offsetof(struct serve_options, tls.cert_file), "FILE", NULL, 0,
	  0, NULL, "certificate chain (PEM); with --tls-key, listen with TLS" },
	{ "tls-key", OPTION_TEXT, offsetof(struct serve_options, tls.key_file), "FILE", NULL, 0, 0,
	  NULL, "private key of the certificate (PEM)" },
	{ "tls-client-ca", OPTION_TEXT, offsetof(struct serve_options, tls.client_ca_file), "FILE",
	  NULL, 0, 0, NULL, "certificates (PEM) of who may sign client certificates" },
	{ "threads", OPTION_COUNT, offsetof(struct serve_options, threads), "N", "1", 1, 64, NULL,
	  "io threads" },
	{ "log", OPTION_CHOICE, offsetof(struct serve_options, log_json), "FORMAT", "text", 0, 0,
	  "text|json", "log lines on standard error: text or json" },
	{ "print", OPTION_CHOICE, offsetof(struct serve_options, print_envelope), "FORM", "event",
	  0, 0, "event|envelope",
	  "a line of standard output: the event, or an envelope with its ticket" },
	{ "commit", OPTION_CHOICE, offsetof(struct serve_options, commit), "WHERE", "auto", 0, 0,
	  "auto|inline|thread",
	  "who writes the journal: the io thread, a thread of its own, or what the disk's speed says" },
	{ "io-uring", OPTION_CHOICE, offsetof(struct serve_options, io_uring), "USE", "auto", 0, 0,
	  "auto|off",
	  "read and answer many connections in one system call where the kernel allows it; off: never ask for it" },
	{ "retain", OPTION_DURATION, offsetof(struct serve_options, local.retain_ms), "TIME", "7d",
	  1000, 3650 * DAY_MS, NULL, "how long the events of settled tickets are kept" },
	{ "retain-size", OPTION_SIZE, offsetof(struct serve_options, local.retain_bytes), "SIZE",
	  "16GiB", 64u << 20, UINT64_C(1) << 50, NULL,
	  "at most this much journal is kept for them" },
	{ "dead-keep", OPTION_DURATION, offsetof(struct serve_options, local.dead_keep_ms), "TIME",
	  "30d", 1000, 3650 * DAY_MS, NULL,
	  "how long events that could not be delivered are kept for a person" },
	{ "max-body", OPTION_SIZE, offsetof(struct serve_options, body_bytes), "SIZE", "1MiB", 1024,
	  4u << 20, NULL, "largest request body, up to 4MiB; beyond it the answer is 413" },
	{ "max-connections", OPTION_COUNT, offsetof(struct serve_options, connections), "N", "8192",
	  1, 1000000, NULL, "open connections in all; beyond it the answer is 503" },
	{ "max-per-address", OPTION_COUNT, offsetof(struct serve_options, connections_per_address),
	  "N", "1024", 1, 1000000, NULL,
	  "open connections of one address; beyond it the answer is 429" },
	{ "max-open-tickets", OPTION_COUNT, offsetof(struct serve_options, open_tickets), "N",
	  "10000000", 1, 100000000, NULL,
	  "open tickets: events for each sink that wait, are dead, parked "
	  "or held; beyond it the answer is 503" },
	{ "accept-clock", OPTION_FLAG, offsetof(struct serve_options, local.accept_clock), NULL,
	  NULL, 0, 0, NULL,
	  "trust the wall clock once, after stile has held it for an unexplained jump" },
};

const struct option_table serve_option_table = { flags, ARRAY_LEN(flags) };

/* ---- the gateway: its listeners, what remembers, what peers may ask for ---- */

static const struct config_option gateway_rows[] = {
	{ "listen", FLAG("listen") },
	{ "threads", FLAG("threads") },
	{ "io_uring", FLAG("io-uring") },
	{ "log", FLAG("log") },
	{ "print", FLAG("print"), .reload = true }, /* by the sinks that have it */
	{ "window", FLAG("window"), .reload = true },

	{ "tls", CONFIG_SECTION, .help = "listen with TLS" },
	{ "tls.cert", FLAG("tls-cert"), .also = "certificate|tls_cert|cert_file" },
	{ "tls.key", FLAG("tls-key"), .also = "tls_key|key_file|private_key" },
	{ "tls.client_ca", FLAG("tls-client-ca"), .also = "ca|ca_file" },

	{ "admin", CONFIG_SECTION, .help = "the listener of the admin API (docs/admin.md)" },
	{ "admin.listen", FLAG("admin"), .also = "admin_listen|address" },
	{ "admin.token", CONFIG_SECRETS,
	  COUNTED(config, admin_tokens, admin_token_count, CONFIG_ADMIN_TOKENS_MAX),
	  .value = "SECRET", .also = "secret|password|bearer",
	  .help = "what a request must bring as `Authorization: Bearer`: one, or several while they change; needed where others than this machine can reach the listener" },

	{ "resp", CONFIG_SECTION, .also = "redis",
	  .help = "the door for clients of Redis (docs/redis-door.md)" },
	{ "resp.listen", FLAG("resp"), .also = "address|port" },
	{ "resp.password", CONFIG_SECRETS,
	  COUNTED(config, resp_passwords, resp_password_count, CONFIG_RESP_PASSWORDS_MAX),
	  .value = "SECRET", .also = "secret|requirepass|auth|token",
	  .help = "what a client says with AUTH or HELLO as the user `default`: one, or several while they change; needed where others than this machine can reach the listener" },
	{ "resp.tls", FLAG("resp-tls") },
	{ "resp.scope", FLAG("resp-scope") },
	{ "resp.max_value", FLAG("resp-max-value"), .also = "value" },
	{ "resp.idle", FLAG("resp-idle"), .also = "timeout|idle_timeout" },

	{ "store", CONFIG_SECTION, .bare = "url", .help = "what remembers: a URL, or more" },
	{ "store.url", CONFIG_STORE_URL, FIELD(config, store.url), .value = "URL",
	  .standard = "the local store",
	  .help = "a store that several gateways share (docs/shared-stores.md): `redis://`, `rediss://`, `redis-cluster://`, `rediss-cluster://` or `postgres://`; `${NAME}` or `file:PATH` for what is secret. As `--store`" },
	{ "store.password", CONFIG_SECRET, FIELD(config, store.password), .value = "SECRET",
	  .also = "pass|passwd|secret",
	  .help = "of the shared store, if the URL has none: `${NAME}` or `file:PATH`" },
	{ "store.lease", CONFIG_MS, FIELD(config, store.lease_ms), .min = 1000, .max = 600000,
	  .value = "TIME", .standard = "30s",
	  .help = "with a shared store: what a gateway was delivering when it died goes to another after this time" },
	{ "store.local", CONFIG_SECTION, .help = "the store in a folder of this machine" },
	{ "store.local.path", FLAG("data"), .also = "data|dir|folder" },
	{ "store.local.retain", FLAG("retain"), .also = "retention" },
	{ "store.local.retain_size", FLAG("retain-size"), .also = "max_size" },
	{ "store.local.dead_keep", FLAG("dead-keep") },
	{ "store.local.commit", FLAG("commit") },

	{ "limits", CONFIG_SECTION, .help = "what peers may ask for" },
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
	  .help = "`auto`: where this machine alone can reach the listener, or with `auth`; else its answer is 403" },
	{ "claims.window", CONFIG_SECONDS, FIELD(config_claims, door.window_s),
	  .min = WINDOW_MIN_MS, .max = WINDOW_MAX_MS, .value = "TIME",
	  .standard = "that of the top", .also = "ttl|expire",
	  .help = "how long a claim and its outcome are remembered, unless the caller says otherwise" },
	{ "claims.lease", CONFIG_MS, FIELD(config_claims, door.lease_ms),
	  .min = CLAIMS_LEASE_MIN_MS, .max = CLAIMS_LEASE_MAX_MS, .value = "TIME",
	  .standard = "30s", .also = "timeout|lock",
	  .help = "how long a caller holds a new claim alone, unless it asks for another time or renews it" },
	{ "claims.max_outcome", CONFIG_SIZE, FIELD(config_claims, door.outcome_bytes), .min = 1,
	  .max = CLAIMS_OUTCOME_MAX, .value = "SIZE", .standard = "64KiB", .also = "outcome_size",
	  .help = "the largest outcome that is kept" },
	{ "claims.auth", CONFIG_SECTION, FIELD(config_claims, auth),
	  .help = "how it knows its callers; as `auth` of a source" },
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
	  .help = "the ways in, by name (letters, digits, `.`, `-`, `_`); without any there is `events` with the preset `auto`" },
	{ SOURCE ".path", CONFIG_PATH, FIELD(config_source, door.path), .value = "PATH",
	  .standard = "/in/NAME", .also = "url|endpoint",
	  .help = "where its events are posted; with /* at its end, below it too" },
	{ SOURCE ".preset", CONFIG_PRESET, FIELD(config_source, preset), .value = "NAME",
	  .also = "recipe|type|kind",
	  .help = "a ready recipe for the events of a platform; `claims` beside it are added to its own" },
	{ SOURCE ".window", CONFIG_SECONDS, FIELD(config_source, recipe.window_s),
	  .min = WINDOW_MIN_MS, .max = WINDOW_MAX_MS, .value = "TIME",
	  .standard = "that of the top", .also = "ttl|expire",
	  .help = "how long its claims are remembered" },
	{ SOURCE ".scope", CONFIG_TEXT, FIELD(config_source, recipe.scope), .max = 64,
	  .value = "NAME", .standard = "the source's name",
	  .help = "sources with one scope share their claims, so that an act is caught that comes in by two ways" },
	{ SOURCE ".mode", CONFIG_CHOICE, FIELD(config_source, recipe.shadow),
	  .choices = "gate|shadow", .standard = "gate",
	  .help = "`shadow`: everything passes, and what would have been dropped is counted and visible" },
	{ SOURCE ".on_conflict", CONFIG_CHOICE, FIELD(config_source, door.on_conflict),
	  .choices = "keep first|let through|reject", .standard = "keep first",
	  .help = "the same key with other content: the second is kept aside, passes, or is answered 422" },
	{ SOURCE ".store_away", CONFIG_CHOICE, FIELD(config_source, door.spool),
	  .choices = "closed|spool", .standard = "closed",
	  .help = "while the shared store is unreachable: closed answers 503 and the sender retries; spool answers 202, keeps the event on this machine and decides it when the store is reachable again" },
	{ SOURCE ".compare", CONFIG_CHOICE, FIELD(config_source, recipe.compare_values),
	  .choices = "text|value", .standard = "text",
	  .help = "whether content is the same (`on_conflict`): by its text but for blanks, or by its JSON value, which costs more" },
	{ SOURCE ".on_replay", CONFIG_CHOICE, FIELD(config_source, recipe.replay_passes),
	  .choices = "gate|pass", .standard = "gate",
	  .help = "an archive replay that was asked for: is gated as any event, or passes without claims" },
	{ SOURCE ".batch", CONFIG_CHOICE, FIELD(config_source, recipe.batch),
	  .choices = "auto|never", .standard = "auto",
	  .help = "may one request hold several events (NDJSON, JSON arrays, Records)" },
	{ SOURCE ".ack", CONFIG_CHOICE, FIELD(config_source, ack_delivered),
	  .choices = "accepted|delivered", .standard = "accepted",
	  .help = "when a sender gets its answer: once the event is durable, or once every sink has its outcome, for senders that should retry by themselves" },
	{ SOURCE ".wait", CONFIG_MS, FIELD(config_source, door.wait_ms), .min = 1, .max = 60000,
	  .value = "TIME", .standard = "10s",
	  .help = "how long an answer waits with `ack: delivered`; then it is 503 `busy`, and the delivery continues" },

	{ AUTH, CONFIG_SECTION, FIELD(config_source, auth),
	  .help = "how the source knows its senders" },
	AUTH_ROWS(AUTH),

	{ SOURCE ".id", CONFIG_PART, FIELD(config_source, plain.id), .value = "PART",
	  .help = "where the sender's own id of an event is (with `claims`, without `preset`)" },
	{ SOURCE ".type", CONFIG_PART, FIELD(config_source, plain.type), .value = "PART",
	  .help = "where its type is" },
	{ SOURCE ".entity", CONFIG_PART, FIELD(config_source, plain.entity), .value = "PART",
	  .help = "where it says whom or what it is about" },
	{ SOURCE ".time", CONFIG_PART, FIELD(config_source, plain.time), .value = "PART",
	  .help = "where its time is" },
	{ SOURCE ".content", CONFIG_PART, FIELD(config_source, plain.content), .value = "PART",
	  .help = "what must not change under one key (`on_conflict`); without it, the body" },
	{ SOURCE ".correlation", CONFIG_PART, FIELD(config_source, plain.correlation),
	  .value = "PART", .help = "where its trace id is" },

	{ SOURCE ".claims", CONFIG_LIST, INSIDE(config_source, plain.claims, plain.claim_count),
	  .value = "[{…}, …]",
	  .help = "what may be taken once, at most 4 of an event; each has one of `once`, `content`, `newest`" },
	{ CLAIM ".once", CONFIG_PARTS,
	  COUNTED(recipe_claim_spec, parts, part_count, RECIPE_SPEC_PARTS_MAX), .value = "[PART…]",
	  .help = "the parts that make an event this very thing" },
	{ CLAIM ".content", CONFIG_CONTENT, .value = "body | [PART…] | {except: [PART…]}",
	  .help = "the same content under whatever id: the canonical body, some parts, or all but some" },
	{ CLAIM ".newest", CONFIG_SECTION, .help = "this entity, only forwards in time" },
	{ CLAIM ".newest.entity", CONFIG_PARTS,
	  COUNTED(recipe_claim_spec, parts, part_count, RECIPE_SPEC_PARTS_MAX),
	  .value = "PART | [PART…]", .help = "whom or what the state belongs to" },
	{ CLAIM ".newest.time", CONFIG_PART, FIELD(recipe_claim_spec, time), .value = "PART",
	  .help = "ISO 8601, or a number of seconds or milliseconds" },
	{ CLAIM ".newest.equal", CONFIG_CHOICE, FIELD(recipe_claim_spec, equal_drops),
	  .choices = "pass|drop", .standard = "pass",
	  .help = "what becomes of an event with the time of the last one" },
	{ CLAIM ".newest.rank", CONFIG_SECTION, .help = "decides between events of one time" },
	{ CLAIM ".newest.rank.part", CONFIG_PART, FIELD(recipe_claim_spec, rank), .value = "PART",
	  .help = "the part that tells the state" },
	{ CLAIM ".newest.rank.order", CONFIG_TEXTS,
	  COUNTED(recipe_claim_spec, ranks, rank_count, RECIPE_SPEC_RANKS_MAX), .value = "[WORD…]",
	  .help = "its values, the earlier state first" },
	{ CLAIM ".name", CONFIG_TEXT, FIELD(recipe_claim_spec, name), .max = 32, .value = "NAME",
	  .standard = "the claim's own text",
	  .help = "what it is called in answers; it is part of its memory, so a new name forgets" },
	{ CLAIM ".window", CONFIG_SECONDS, FIELD(recipe_claim_spec, window_s), .min = WINDOW_MIN_MS,
	  .max = WINDOW_MAX_MS, .value = "TIME", .standard = "that of the source",
	  .also = "ttl|expire", .help = "how long it is remembered" },
	{ CLAIM ".missing", CONFIG_CHOICE, FIELD(recipe_claim_spec, missing),
	  .choices = "reject|skip|digest", .standard = "reject",
	  .help = "a part is not there: answer 400, go on without this claim, or take a digest of the body" },
	{ CLAIM ".when", CONFIG_WHEN,
	  COUNTED(recipe_claim_spec, conditions, condition_count, RECIPE_SPEC_CONDITIONS_MAX),
	  .value = "{PART: PATTERN, …}",
	  .help = "the claim holds only for events for which all of this is so" },
	{ CLAIM ".mode", CONFIG_CHOICE, FIELD(recipe_claim_spec, shadow), .choices = "gate|shadow",
	  .standard = "gate", .help = "`shadow`: it is counted and drops nothing" },

	{ SOURCE ".recipes", CONFIG_LIST, POINTED(config_source, recipe.cases, recipe.case_count),
	  .value = "[{…}, …]", .also = "cases|rules",
	  .help = "rules for events of several kinds; the first whose `when` holds is used" },
	{ RECIPE ".name", CONFIG_STRING, FIELD(recipe_case_spec, name), .max = 64, .value = "NAME",
	  .help = "for people" },
	{ RECIPE ".when", CONFIG_WHEN,
	  COUNTED(recipe_case_spec, conditions, condition_count, RECIPE_SPEC_CONDITIONS_MAX),
	  .value = "{PART: PATTERN, …}", .help = "the events that it is for; without it: all" },
	{ RECIPE ".id", CONFIG_PART, FIELD(recipe_case_spec, id), .value = "PART",
	  .help = "as that of the source" },
	{ RECIPE ".type", CONFIG_PART, FIELD(recipe_case_spec, type), .value = "PART",
	  .help = "as that of the source" },
	{ RECIPE ".entity", CONFIG_PART, FIELD(recipe_case_spec, entity), .value = "PART",
	  .help = "as that of the source" },
	{ RECIPE ".time", CONFIG_PART, FIELD(recipe_case_spec, time), .value = "PART",
	  .help = "as that of the source" },
	{ RECIPE ".content", CONFIG_PART, FIELD(recipe_case_spec, content), .value = "PART",
	  .help = "as that of the source" },
	{ RECIPE ".correlation", CONFIG_PART, FIELD(recipe_case_spec, correlation), .value = "PART",
	  .help = "as that of the source" },
	{ RECIPE ".claims", CONFIG_LIST, INSIDE(recipe_case_spec, claims, claim_count),
	  .rows_of = CLAIM, .value = "[{…}, …]", .help = "as those of the source" },
};

/* ---- sinks: where events go, and how ---- */

#define SINK "sinks.*"

static const struct config_option sink_rows[] = {
	{ "sinks", CONFIG_NAMED, POINTED(config, sinks, sink_count), .reload = true,
	  .value = "NAME: stdout | {…}", .standard = "{ stdout: stdout }",
	  .also = "output|outputs|destinations",
	  .help = "where new events go, by name (not `none` or `caller`); each says with `stdout`, `http`, `file`, `postgres` or `stile` what it is" },
	{ SINK ".stdout", CONFIG_CHOICE, FIELD(config_sink, print), .sinks = CONFIG_OF_STDOUT,
	  .choices = "event|envelope", .standard = "that of `print`",
	  .help = "prints events, one a line; `NAME: stdout` is the short form" },
	{ SINK ".http", CONFIG_URL, FIELD(config_sink, http.url), .sinks = CONFIG_OF_HTTP,
	  .value = "URL", .also = "url|uri|endpoint|webhook",
	  .help = "sends events there as HTTP requests; path and query may have places for values of the event: `{id}`, `{$.order.id}`" },
	{ SINK ".file", CONFIG_TEXT, FIELD(config_sink, file.path), .sinks = CONFIG_OF_FILE,
	  .value = "PATH", .also = "path|filename",
	  .help = "writes events to the end of that file, one a line; `{date}` in its name is the day in UTC" },
	{ SINK ".print", CONFIG_CHOICE, FIELD(config_sink, print), .sinks = CONFIG_OF_FILE,
	  .choices = "event|envelope", .standard = "that of `print`", .also = "format|envelope",
	  .help = "what a line of the file is" },
	{ SINK ".sync", CONFIG_CHOICE, FIELD(config_sink, file.no_sync), .sinks = CONFIG_OF_FILE,
	  .choices = "batch|none", .standard = "batch", .also = "fsync",
	  .help = "an event is done when its line is on disk, or when it is written" },
	{ SINK ".rotate", CONFIG_SECTION, .sinks = CONFIG_OF_FILE,
	  .help = "when a file is renamed to FILE.TIME and another begun" },
	{ SINK ".rotate.size", CONFIG_SIZE, FIELD(config_sink, file.rotate_bytes), .min = 1024,
	  .max = UINT64_C(1) << 50, .value = "SIZE", .also = "max_size|bytes",
	  .help = "before it gets larger; a single batch of events may be" },
	{ SINK ".rotate.every", CONFIG_MS, FIELD(config_sink, file.rotate_ms), .min = 1000,
	  .max = 366 * DAY_MS, .value = "TIME", .also = "age|interval|max_age",
	  .help = "with the first event of another period, counted in UTC: `1h` is with the full hour, `1d` at midnight" },
	{ SINK ".rotate.keep", CONFIG_COUNT, FIELD(config_sink, file.keep), .min = 0,
	  .max = 1000000, .value = "N", .standard = "0", .also = "count|files|max_files|backups",
	  .help = "number of rotated files to keep (with `{date}` also those of earlier days); 0 keeps all" },
	{ SINK ".postgres", CONFIG_URL, FIELD(config_sink, postgres.conninfo),
	  .sinks = CONFIG_OF_POSTGRES, .value = "CONNINFO", .also = "postgresql|database|dsn|pg",
	  .help = "writes each event to this database exactly once: `postgresql://USER@HOST/DATABASE`, or `host=… dbname=…`" },
	{ SINK ".password", CONFIG_SECRET, FIELD(config_sink, postgres.password),
	  .sinks = CONFIG_OF_POSTGRES, .value = "SECRET", .also = "pass|passwd",
	  .help = "of the database's user: `${NAME}` or `file:PATH`; without it that of the connection string, or of PGPASSWORD or ~/.pgpass" },
	{ SINK ".statement", CONFIG_TEXT, FIELD(config_sink, postgres.statement),
	  .sinks = CONFIG_OF_POSTGRES, .value = "SQL",
	  .standard = "a row of `table` with the event", .also = "sql|query|insert",
	  .help = "what to do with each event, in one transaction with its key: `INSERT INTO orders (id, total) VALUES ({id}, {$.total})`; places are parameters" },
	{ SINK ".table", CONFIG_TEXT, FIELD(config_sink, postgres.table),
	  .sinks = CONFIG_OF_POSTGRES, .max = 127, .value = "NAME",
	  .standard = "stile_events; with `statement` stile_effects",
	  .help = "where events go or, with `statement`, the keys of those that are done; `schema.name` is possible" },
	{ SINK ".key", CONFIG_TEXT, FIELD(config_sink, postgres.key), .sinks = CONFIG_OF_POSTGRES,
	  .value = "TEMPLATE", .standard = "{ticket}", .also = "effect_key|idempotency_key",
	  .help = "what an effect is known by; where several stiles write to one table each needs its own, such as `eu1-{ticket}`" },
	{ SINK ".create", CONFIG_CHOICE, FIELD(config_sink, postgres.no_create),
	  .sinks = CONFIG_OF_POSTGRES, .choices = "yes|no", .standard = "yes",
	  .help = "whether `table` is made if it is not there" },
	{ SINK ".stile", CONFIG_URL, FIELD(config_sink, http.url), .sinks = CONFIG_OF_STILE,
	  .value = "URL", .also = "gateway|peer",
	  .help = "hands events to a source of another stile, many in one request, and reads its verdict on each: `https://HOST/in/NAME`" },
	{ SINK ".method", CONFIG_CHOICE, FIELD(config_sink, http.method), .sinks = CONFIG_OF_HTTP,
	  .choices = "POST|PUT|PATCH", .standard = "POST", .help = "of its requests" },
	{ SINK ".headers", CONFIG_HEADERS, FIELD(config_sink, http.headers),
	  .sinks = CONFIG_OF_REQUESTS, .value = "{NAME: VALUE, …}", .also = "header",
	  .help = "of its own, beside those that every request has; a value may have places, or be a secret: `${NAME}`, `file:PATH`" },
	{ SINK ".body", CONFIG_TEXT, FIELD(config_sink, http.body), .sinks = CONFIG_OF_HTTP,
	  .value = "TEMPLATE", .standard = "the event, byte for byte", .also = "template|payload",
	  .help = "a body with places for values of the event" },
	{ SINK ".body_form", CONFIG_CHOICE, FIELD(config_sink, http.body_is_form),
	  .sinks = CONFIG_OF_HTTP, .choices = "json|form", .standard = "json",
	  .help = "what the template of `body` is" },
	{ SINK ".batch", CONFIG_CHOICE, FIELD(config_sink, http.batch), .sinks = CONFIG_OF_HTTP,
	  .choices = "none|ndjson|array", .standard = "none",
	  .help = "many events in one request, as lines or as one JSON array; the answer is that of each" },
	{ SINK ".batch_events", CONFIG_COUNT, FIELD(config_sink, http.batch_events),
	  .sinks = CONFIG_OF_REQUESTS, .min = 1, .max = HTTP_BATCH_MAX, .value = "N",
	  .standard = "100", .help = "in one request, at most" },
	{ SINK ".batch_size", CONFIG_SIZE, FIELD(config_sink, http.batch_bytes),
	  .sinks = CONFIG_OF_REQUESTS, .min = 1024, .max = 16u << 20, .value = "SIZE",
	  .standard = "1MiB",
	  .help = "of one request, at most; an event that is larger goes alone" },
	{ SINK ".timeout", CONFIG_MS, FIELD(config_sink, http.timeout_ms),
	  .sinks = CONFIG_OF_REQUESTS | CONFIG_OF_POSTGRES, .min = 10, .max = HOUR_MS,
	  .value = "TIME", .standard = "30s",
	  .help = "for a whole request, from its beginning to the answer; of `postgres` for a transaction" },
	{ SINK ".connect_timeout", CONFIG_MS, FIELD(config_sink, http.connect_ms),
	  .sinks = CONFIG_OF_REQUESTS | CONFIG_OF_POSTGRES, .min = 10, .max = HOUR_MS,
	  .value = "TIME", .standard = "10s", .help = "for name, connection and TLS" },
	{ SINK ".keep_alive", CONFIG_MS, FIELD(config_sink, http.idle_ms),
	  .sinks = CONFIG_OF_REQUESTS, .min = 0, .max = HOUR_MS, .value = "TIME", .standard = "4s",
	  .help = "how long an unused connection is kept, in whole seconds; less than its peer keeps it; 0s: each request has its own" },
	{ SINK ".http2", CONFIG_CHOICE, FIELD(config_sink, http.http1), .sinks = CONFIG_OF_REQUESTS,
	  .choices = "auto|never", .standard = "auto", .help = "with TLS, if the peer offers it" },
	{ SINK ".correlation_header", CONFIG_TEXT, FIELD(config_sink, http.correlation_header),
	  .sinks = CONFIG_OF_REQUESTS, .max = 64, .value = "NAME", .standard = "X-Correlation-Id",
	  .help = "the header that has the correlation id of the event, if it came with one" },
	{ SINK ".sign", CONFIG_SECRETS,
	  COUNTED(config_sink, http.sign, http.sign_count, HTTP_SECRETS_MAX),
	  .sinks = CONFIG_OF_REQUESTS, .value = "SECRET", .also = "secret|signing_secret|secrets",
	  .help = "signs each request as Standard Webhooks says: `whsec_…`, or a list of up to 5 while they are rotated, the newest first" },
	{ SINK ".allow", CONFIG_NETWORKS,
	  COUNTED(config_sink, http.allow, http.allow_count, HTTP_ALLOW_MAX),
	  .sinks = CONFIG_OF_REQUESTS, .value = "[CIDR…]", .also = "networks|allow_networks",
	  .help = "networks that may be reached though they are not public, such as `10.0.0.0/8` or `127.0.0.0/8`" },
	{ SINK ".tls", CONFIG_SECTION, .sinks = CONFIG_OF_REQUESTS,
	  .help = "how an https sink is known, and how it knows us" },
	{ SINK ".tls.ca", CONFIG_STRING, FIELD(config_sink, http.ca_file), .value = "FILE",
	  .standard = "the system's", .also = "ca_file|client_ca",
	  .help = "who may sign its certificate (PEM)" },
	{ SINK ".tls.cert", CONFIG_STRING, FIELD(config_sink, http.cert_file), .value = "FILE",
	  .also = "certificate|cert_file",
	  .help = "our certificate with its chain (PEM), if it wants one" },
	{ SINK ".tls.key", CONFIG_STRING, FIELD(config_sink, http.key_file), .value = "FILE",
	  .also = "key_file|private_key", .help = "its key (PEM)" },
	{ SINK ".tls.name", CONFIG_TEXT, FIELD(config_sink, http.server_name), .max = 253,
	  .value = "NAME", .standard = "the URL's host", .also = "server_name|sni",
	  .help = "the name that its certificate must have" },
	{ SINK ".retry", CONFIG_SECTION,
	  .help = "when a failed attempt is made again: after a time by chance between 0s and `first`, twice, four times … as much, up to `max`" },
	{ SINK ".retry.first", CONFIG_MS, FIELD(config_sink, policy.retry.first_ms), .min = 1,
	  .max = DAY_MS, .value = "TIME", .standard = "1s", .also = "initial|min|delay|interval",
	  .help = "the longest wait after the first attempt" },
	{ SINK ".retry.max", CONFIG_MS, FIELD(config_sink, policy.retry.max_ms), .min = 1,
	  .max = 30 * DAY_MS, .value = "TIME", .standard = "10m", .also = "max_delay|cap",
	  .help = "the longest wait between two attempts" },
	{ SINK ".retry.for", CONFIG_MS, FIELD(config_sink, policy.retry.for_ms), .min = 0,
	  .max = 365 * DAY_MS, .value = "TIME", .standard = "3d", .also = "max_age|duration",
	  .help = "older events become dead letters when an attempt fails; 0s: never" },
	{ SINK ".retry.attempts", CONFIG_COUNT, FIELD(config_sink, policy.retry.attempts), .min = 0,
	  .max = 1000000, .value = "N", .standard = "0", .also = "max_attempts|limit|count",
	  .help = "number of failed attempts after which an event becomes a dead letter; 0: no limit" },
	{ SINK ".retry.on", CONFIG_TEXTS, COUNTED(config_sink, rules, rule_count, JUDGE_RULES_MAX),
	  .value = "[STATUS…]", .standard = "401, 407, 408, 409, 425, 429, 5xx",
	  .also = "statuses|status|codes",
	  .help = "which answers are retried: `429`, `500-599`, `>=500`; `!501` never; with rules of the last kind alone the default holds for the rest" },
	{ SINK ".retry_after_max", CONFIG_MS, FIELD(config_sink, policy.retry_after_max_ms),
	  .min = 0, .max = 30 * DAY_MS, .value = "TIME", .standard = "1h",
	  .help = "a sink may ask for no longer pause (Retry-After)" },
	{ SINK ".on_unknown", CONFIG_CHOICE, FIELD(config_sink, policy.on_unknown),
	  .choices = "retry|probe|park", .standard = "retry", .also = "unknown",
	  .help = "an attempt was sent and no answer came: send it again with the same key, ask first whether it had its effect (`probe`), or leave it to a person" },
	{ SINK ".probe", CONFIG_URL, FIELD(config_sink, http.probe), .sinks = CONFIG_OF_HTTP,
	  .value = "URL", .also = "probe_url",
	  .help = "a GET, with the same headers, that tells whether an event had its effect: 2xx yes, 404 and 410 no" },
	{ SINK ".breaker", CONFIG_SECTION, .also = "circuit_breaker",
	  .help = "leaves a sink alone that does not work" },
	{ SINK ".breaker.failures", CONFIG_COUNT, FIELD(config_sink, policy.breaker.failures),
	  .min = 0, .max = 1000000, .value = "N", .standard = "10",
	  .help = "in a row that open it; 0: not judged by that" },
	{ SINK ".breaker.percent", CONFIG_COUNT, FIELD(config_sink, policy.breaker.per_cent),
	  .min = 0, .max = 100, .value = "N", .standard = "50",
	  .help = "of the attempts of `window` that open it; 0: not judged by that" },
	{ SINK ".breaker.calls", CONFIG_COUNT, FIELD(config_sink, policy.breaker.calls), .min = 1,
	  .max = 1000000, .value = "N", .standard = "20",
	  .help = "in `window` at least, before `percent` counts" },
	{ SINK ".breaker.window", CONFIG_MS, FIELD(config_sink, policy.breaker.window_ms),
	  .min = 100, .max = HOUR_MS, .value = "TIME", .standard = "10s",
	  .help = "the time that `percent` is judged over" },
	{ SINK ".breaker.open", CONFIG_MS, FIELD(config_sink, policy.breaker.first_ms), .min = 1,
	  .max = DAY_MS, .value = "TIME", .standard = "1s",
	  .help = "how long it stays open the first time, twice as long the next …" },
	{ SINK ".breaker.open_max", CONFIG_MS, FIELD(config_sink, policy.breaker.max_ms), .min = 1,
	  .max = DAY_MS, .value = "TIME", .standard = "1m", .help = "… up to this" },
	{ SINK ".breaker.probes", CONFIG_COUNT, FIELD(config_sink, policy.breaker.probes), .min = 1,
	  .max = 1000, .value = "N", .standard = "1",
	  .help = "attempts at a time, to see whether it works again" },
	{ SINK ".breaker.successes", CONFIG_COUNT, FIELD(config_sink, policy.breaker.successes),
	  .min = 1, .max = 1000, .value = "N", .standard = "3",
	  .help = "of them in a row that close it" },
	{ SINK ".concurrency", CONFIG_COUNT, FIELD(config_sink, policy.limiter.most),
	  .sinks = CONFIG_OF_REQUESTS, .min = 1, .max = 4096, .value = "N", .standard = "64",
	  .also = "parallel|workers|max_concurrency", .help = "requests at once, at most" },
	{ SINK ".adapt", CONFIG_CHOICE, FIELD(config_sink, policy.limiter.fixed),
	  .sinks = CONFIG_OF_REQUESTS, .choices = "yes|no", .standard = "yes",
	  .help = "whether fewer go at once when the sink gets slow or has too much (429, 503)" },
	{ SINK ".rate", CONFIG_RATE, FIELD(config_sink, policy.limiter), .value = "N/s | N/m | N/h",
	  .also = "rate_limit|max_rate", .help = "attempts in a second, minute or hour, at most" },
	{ SINK ".burst", CONFIG_COUNT, FIELD(config_sink, policy.limiter.burst), .min = 1,
	  .max = 1000000, .value = "N", .standard = "a tenth of a second of `rate`",
	  .help = "number of attempts allowed at once after a pause" },
	{ SINK ".order", CONFIG_SECTION,
	  .help = "what becomes of an entity when the first of its events cannot be delivered (`order_by` of routes)" },
	{ SINK ".order.stuck", CONFIG_CHOICE, FIELD(config_sink, steps_aside),
	  .choices = "wait|aside", .standard = "wait",
	  .help = "the others wait for it, or it becomes a dead letter (parked, if its outcome is unknown) and they continue" },
	{ SINK ".order.attempts", CONFIG_COUNT, FIELD(config_sink, policy.stuck.attempts), .min = 0,
	  .max = 1000000, .value = "N", .standard = "10",
	  .help = "number of failed attempts after which it steps aside; 0: no limit" },
	{ SINK ".order.for", CONFIG_MS, FIELD(config_sink, policy.stuck.for_ms), .min = 0,
	  .max = 365 * DAY_MS, .value = "TIME", .standard = "1h",
	  .help = "age at which it steps aside; 0s: no limit" },
	{ SINK ".dead_letter", CONFIG_TEXT, FIELD(config_sink, dead_letter), .max = 64,
	  .value = "SINK", .also = "dlq|dead_letter_queue",
	  .help = "a sink that gets what could not be delivered here, as an event of its own" },
	{ SINK ".dead_letters", CONFIG_CHOICE, FIELD(config_sink, policy.forget_dead),
	  .choices = "keep|forget", .standard = "keep",
	  .help = "whether events that could not be delivered are kept for a person (`store.local.dead_keep`)" },
};

/* ---- routes: which events go where ---- */

#define ROUTE "routes[]"

static const struct config_option route_rows[] = {
	{ "routes", CONFIG_LIST, POINTED(config, routes, route_count), .reload = true,
	  .value = "[{…}, …]", .standard = "everything goes to every sink",
	  .help = "which events go where; an event goes to the sinks of every route that is for it, to each once" },
	{ ROUTE ".from", CONFIG_TEXTS,
	  COUNTED(config_route, from, from_count, CONFIG_ROUTE_NAMES_MAX),
	  .value = "SOURCE | [SOURCE…]", .standard = "all", .also = "source|sources",
	  .help = "the sources whose events it is for" },
	{ ROUTE ".type", CONFIG_TEXT, FIELD(config_route, type), .max = 256, .value = "PATTERN",
	  .standard = "any",
	  .help = "the type of its events, with `*` for any run of characters, upper and lower case as written" },
	{ ROUTE ".when", CONFIG_WHEN,
	  COUNTED(config_route, conditions, condition_count, RECIPE_SPEC_CONDITIONS_MAX),
	  .value = "{PART: PATTERN, …}", .also = "if|match|filter",
	  .help = "all of this must be so; as in recipes, and `type`, `id`, `entity` and `source` are what the source read" },
	{ ROUTE ".to", CONFIG_TEXTS, COUNTED(config_route, to, to_count, CONFIG_ROUTE_NAMES_MAX),
	  .value = "SINK | [SINK…] | none", .also = "sink|sinks|target",
	  .help = "where they go; `none`: they are decided, and that is all" },
	{ ROUTE ".order_by", CONFIG_PART, FIELD(config_route, order_by),
	  .value = "entity | id | type | PART", .also = "order|key|group_by",
	  .help = "events with one value of this are delivered one after the other, in the order in which they came; others in parallel" },
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
