/* config_sink: a sink: its kind, and the options that fit the kind. See config_internal.h. */
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "codec/ip.h"
#include "config/config_internal.h"
#include "sink/stdout_outlet.h"
#include "store/store.h"

#define SECTION "sinks.*"

const char *config_sink_word(enum config_sink_kind kind)
{
	static const char *const words[] = { "stdout", "http", "file", "postgres", "stile" };
	CHECK(kind < CONFIG_SINK_KINDS);
	return words[kind];
}

/* ---- values of their own shape ---- */

/* "50/s": how many in which time. */
void config_read_rate(struct config_reader *reader, const struct yaml_node *node,
                      struct limiter_policy *limiter)
{
	static const struct {
		const char *unit;
		uint32_t per_ms;
	} units[] = { { "s", 1000 }, { "m", 60000 }, { "h", 3600000 } };
	struct span text;
	uint64_t count = 0;
	if (!config_read_text(reader, node, &text))
		return;
	const char *slash = memchr(text.ptr, '/', text.len);
	size_t len = slash ? (size_t)(slash - text.ptr) : 0;
	bool number = len > 0 && text_parse_u64(span_of(text.ptr, len), &count) == 0;
	for (size_t i = 0; i < ARRAY_LEN(units) && number && count > 0 && count <= 1000000; i++) {
		if (!span_eq(span_skip(text, len + 1), span_str(units[i].unit)))
			continue;
		limiter->rate = (uint32_t)count;
		limiter->per_ms = units[i].per_ms;
		return;
	}
	config_tell(reader, CONFIG_ERROR, node,
	            "found %s, expected a rate, such as 50/s, 100/m or 2000/h, of 1 to 1000000",
	            config_found(node).text);
}

/* ---- headers ---- */

/* Does it have a placeholder for a value of the event, other than ${NAME}? */
static bool has_places(struct span text)
{
	for (size_t i = 0; i + 1 < text.len; i++) {
		char next = span_lower(text.ptr[i + 1]);
		bool variable = i > 0 && text.ptr[i - 1] == '$';
		if (text.ptr[i] == '{' && !variable &&
		    ((next >= 'a' && next <= 'z') || next == '$'))
			return true;
	}
	return false;
}

/* The same rule as the sink: http_outlet.h. */
static bool names_secret(struct span name)
{
	static const char *const words[] = { "auth", "cookie", "key", "token", "secret", "passw" };
	char lower[64] = "";
	for (size_t i = 0; i < name.len && i + 1 < sizeof(lower); i++)
		lower[i] = span_lower(name.ptr[i]);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strstr(lower, words[i]))
			return true;
	return false;
}

/* The parts that came from variables are noted: they are the secret in the header. */
static bool read_header_value(struct config_reader *reader, const struct yaml_node *node,
                              struct http_header_option *header)
{
	struct config_values values = { .count = 0 };
	/* Of a file the whole value is the secret, not its path. */
	reader->values = span_starts(node->text, SPAN("file:")) ? NULL : &values;
	bool fine = header->secret ? config_read_secret(reader, node, &header->value)
	                           : config_read_text(reader, node, &header->value);
	reader->values = NULL;
	if (!fine || values.count == 0)
		return fine;
	if (values.count > CONFIG_VALUES_MAX) {
		config_tell(reader, CONFIG_ERROR, node, "found %u variables, expected at most %u",
		            values.count, CONFIG_VALUES_MAX);
		return false;
	}
	struct span *parts = config_alloc(reader, values.count, sizeof(*parts));
	if (!parts)
		return false;
	memcpy(parts, values.list, values.count * sizeof(*parts));
	header->parts = parts;
	header->part_count = values.count;
	return true;
}

/* A value from a file or the environment is taken as it is; any other is a template. */
static void read_header(struct config_reader *reader, const struct yaml_node *node,
                        struct http_header_option *ret_header)
{
	struct span written = node->kind == YAML_TEXT ? node->text : SPAN_EMPTY;
	bool file = span_starts(written, SPAN("file:"));
	bool variable = written.len > 0 && memmem(written.ptr, written.len, "${", 2);
	bool secret = file || (variable && !has_places(written)) ||
	              (names_secret(node->name->text) && !has_places(written));
	struct http_header_option header = { .secret = secret, .hidden = variable };
	if (!config_read_text(reader, node->name, &header.name))
		return;
	if (read_header_value(reader, node, &header))
		*ret_header = header;
}

void config_read_headers(struct config_reader *reader, const struct yaml_node *map,
                         struct http_headers *ret_headers)
{
	if (!config_is_map(reader, map))
		return;
	if (map->count == 0 || map->count > HTTP_HEADERS_MAX) {
		config_tell(reader, CONFIG_ERROR, map, "found %u headers, expected 1 to %u",
		            map->count, HTTP_HEADERS_MAX);
		return;
	}
	struct http_header_option *list = config_alloc(reader, map->count, sizeof(*list));
	uint32_t count = 0;
	for (const struct yaml_node *member = map->first; member && list; member = member->next) {
		size_t at = config_enter(reader, member->name->text);
		if (!config_is_repeated(reader, map, member))
			read_header(reader, member, &list[count++]);
		config_leave(reader, at);
	}
	*ret_headers = (struct http_headers){ count, list };
}

/* ---- outlets ---- */

/* Would its outlet accept these options? Opens no file. */
static int check_outlet(const struct config_sink *sink, struct error_text *ret_text)
{
	switch (sink->kind) {
	case CONFIG_SINK_HTTP:
	case CONFIG_SINK_STILE: return http_outlet_check(&sink->http, ret_text);
	case CONFIG_SINK_FILE: return file_outlet_check(&sink->file, ret_text);
	case CONFIG_SINK_POSTGRES: return postgres_outlet_check(&sink->postgres, ret_text);
	case CONFIG_SINK_STDOUT:
	case CONFIG_SINK_KINDS: break;
	}
	return 0;
}

int config_outlet_open(const struct config_sink *sink, struct loop *loop,
                       struct outlet **ret_outlet, struct error_text *ret_text)
{
	struct http_outlet_options http = sink->http;
	struct stdout_outlet_options printing = { .fd = STDOUT_FILENO,
		                                  .envelope = sink->file.envelope };
	http.loop = loop;
	switch (sink->kind) {
	case CONFIG_SINK_HTTP:
	case CONFIG_SINK_STILE: return http_outlet_new(&http, ret_outlet, ret_text);
	case CONFIG_SINK_FILE: return file_outlet_new(&sink->file, ret_outlet, ret_text);
	case CONFIG_SINK_POSTGRES:
		return postgres_outlet_new(&sink->postgres, ret_outlet, ret_text);
	case CONFIG_SINK_STDOUT:
	case CONFIG_SINK_KINDS: break;
	}
	return stdout_outlet_new(&printing, ret_outlet);
}

/* ---- one sink ---- */

struct kinds_text {
	char text[128];
};

/* "stdout, http or file" */
static struct kinds_text list_kinds(void)
{
	struct kinds_text kinds;
	struct buf out = buf_on(kinds.text, sizeof(kinds.text));
	for (uint32_t i = 0; i < CONFIG_SINK_KINDS; i++) {
		const char *between = i + 1 < CONFIG_SINK_KINDS ? ", " : " or ";
		buf_printf(&out, "%s%s", i > 0 ? between : "",
		           config_sink_word((enum config_sink_kind)i));
	}
	buf_append_char(&out, '\0');
	CHECK(!out.failed);
	return kinds;
}

static void tell_kind(struct config_reader *reader, const struct yaml_node *node)
{
	config_tell(reader, CONFIG_ERROR, node, "found %s, expected a sink that there is: %s",
	            config_found(node).text, list_kinds().text);
}

/* The member that names the kind; exactly one. */
static const struct yaml_node *find_kind(struct config_reader *reader, const struct yaml_node *map,
                                         enum config_sink_kind *ret_kind)
{
	const struct yaml_node *found = NULL;
	enum config_sink_kind kind = CONFIG_SINK_KINDS;
	for (uint32_t i = 0; i < CONFIG_SINK_KINDS; i++) {
		const char *word = config_sink_word((enum config_sink_kind)i);
		const struct yaml_node *node = yaml_map_find(map, span_str(word));
		if (node && found) {
			config_tell(reader, CONFIG_ERROR, node->name,
			            "found %.*s and %s in one sink, expected one of them",
			            (int)found->name->text.len, found->name->text.ptr, word);
			return NULL;
		}
		if (node) {
			found = node;
			kind = (enum config_sink_kind)i;
		}
	}
	if (found)
		*ret_kind = kind;
	else if (!config_has_unknown(SECTION, map))
		config_tell(reader, CONFIG_ERROR, map->name, "the sink has no kind, expected %s",
		            list_kinds().text);
	return found;
}

/* Options that are not for this kind of sink. */
static void refuse_foreign(struct config_reader *reader, const struct yaml_node *map,
                           enum config_sink_kind kind)
{
	for (const struct yaml_node *member = map->first; member; member = member->next) {
		const struct config_option *row = config_option_find(SECTION, member->name->text);
		if (!row || row->sinks == 0 || row->sinks & 1u << kind)
			continue;
		size_t at = config_enter(reader, member->name->text);
		config_tell(reader, CONFIG_ERROR, member->name, "is not for a sink of the kind %s",
		            config_sink_word(kind));
		config_leave(reader, at);
	}
}

static void read_rules(struct config_reader *reader, struct config_sink *sink)
{
	for (uint32_t i = 0; i < sink->rule_count; i++) {
		struct error_text text;
		if (judge_rule_add(&sink->policy.rules, sink->rules[i], &text) == 0)
			continue;
		struct config_mark mark = config_mark_of(reader->config, sink->rules[i].ptr);
		struct yaml_node node = { .kind = YAML_TEXT, .text = sink->rules[i] };
		size_t at = config_enter(reader, SPAN("retry.on"));
		config_enter_index(reader, i);
		config_tell_at(reader, CONFIG_ERROR, mark.place, "found %s, expected %s",
		               mark.exact ? config_found(&node).text : "another text", text.text);
		config_leave(reader, at);
	}
}

/* An option that has an effect only together with another. */
struct needs {
	const char *option, *needed;
	bool met;
};

static const struct yaml_node *find_path(const struct yaml_node *map, const char *path)
{
	struct span rest = span_str(path);
	while (map && map->kind == YAML_MAP) {
		const char *dot = memchr(rest.ptr, '.', rest.len);
		size_t len = dot ? (size_t)(dot - rest.ptr) : rest.len;
		map = yaml_map_find(map, span_of(rest.ptr, len));
		if (!dot)
			return map;
		rest = span_skip(rest, len + 1);
	}
	return NULL;
}

static void check_needs(struct config_reader *reader, const struct yaml_node *map,
                        const struct config_sink *sink)
{
	bool batches = sink->http.batch != HTTP_BATCH_NONE || sink->kind == CONFIG_SINK_STILE;
	bool rotates = sink->file.rotate_bytes > 0 || sink->file.rotate_ms > 0 ||
	               (sink->file.path.len > 0 &&
	                memmem(sink->file.path.ptr, sink->file.path.len, "{date}", 6));
	const struct needs needs[] = {
		{ "burst", "rate", sink->policy.limiter.rate > 0 },
		{ "batch_events", "batch", batches },
		{ "batch_size", "batch", batches },
		{ "rotate.keep", "rotate.size, rotate.every or {date} in the name", rotates },
		{ "body_form", "body", sink->http.body.len > 0 },
		{ "probe", "on_unknown: probe", sink->policy.on_unknown == DELIVER_UNKNOWN_PROBE },
		{ "order.attempts", "order.stuck: aside", sink->steps_aside },
		{ "order.for", "order.stuck: aside", sink->steps_aside },
	};
	for (size_t i = 0; i < ARRAY_LEN(needs); i++) {
		const struct yaml_node *node = find_path(map, needs[i].option);
		if (!node || needs[i].met)
			continue;
		size_t at = config_enter(reader, span_str(needs[i].option));
		config_tell(reader, CONFIG_ERROR, node->name, "has no effect without %s",
		            needs[i].needed);
		config_leave(reader, at);
	}
}

static void check_ranges(struct config_reader *reader, const struct yaml_node *map,
                         const struct config_sink *sink)
{
	const struct deliver_policy *policy = &sink->policy;
	const struct {
		const char *option, *text;
		bool wrong;
	} ranges[] = {
		{ "retry.max", "is shorter than retry.first",
		  policy->retry.max_ms < policy->retry.first_ms },
		{ "breaker.open_max", "is shorter than breaker.open",
		  policy->breaker.max_ms < policy->breaker.first_ms },
		{ "connect_timeout", "is longer than timeout",
		  sink->http.connect_ms > sink->http.timeout_ms },
	};
	for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
		const struct yaml_node *node = find_path(map, ranges[i].option);
		if (!node || !ranges[i].wrong)
			continue;
		size_t at = config_enter(reader, span_str(ranges[i].option));
		config_tell(reader, CONFIG_ERROR, node, "%s", ranges[i].text);
		config_leave(reader, at);
	}
	if (policy->on_unknown == DELIVER_UNKNOWN_PROBE && sink->http.probe.len == 0)
		config_tell(reader, CONFIG_ERROR, map->name,
		            "on_unknown is probe, but probe is missing: the URL to ask");
}

/* The text of the sink begins with the option that it is about. */
static void tell_own(struct config_reader *reader, const struct yaml_node *map,
                     const struct config_sink *sink, const char *text)
{
	const char *colon = strstr(text, ": ");
	struct span name = span_of(text, colon ? (size_t)(colon - text) : 0);
	if (span_eq(name, SPAN("url")) || span_eq(name, SPAN("path")))
		name = span_str(config_sink_word(sink->kind));
	const struct yaml_node *node = yaml_map_find(map, name);
	if (!node) {
		config_tell(reader, CONFIG_ERROR, map->name, "%s", text);
		return;
	}
	size_t at = config_enter(reader, name);
	config_tell(reader, CONFIG_ERROR, node, "%s", colon + 2);
	config_leave(reader, at);
}

/* The sink checks addresses now and names at run time; localhost is known here already. */
static void advise_allow(struct config_reader *reader, const struct yaml_node *map,
                         const struct config_sink *sink)
{
	const struct http_outlet_options *http = &sink->http;
	struct span word = span_str(config_sink_word(sink->kind));
	const char *slashes = memmem(http->url.ptr, http->url.len, "://", 3);
	struct span host = span_skip(http->url,
	                             slashes ? (size_t)(slashes - http->url.ptr) + 3 : 0);
	struct ip_address address;
	if (!span_starts(host, SPAN("localhost")) || ip_parse(SPAN("127.0.0.1"), &address) != 0 ||
	    (host.len > 9 && !strchr(":/?#", host.ptr[9])))
		return;
	for (uint32_t i = 0; i < http->allow_count; i++) {
		struct ip_network network;
		struct error_text text;
		if (ip_network_parse(http->allow[i], &network, &text) == 0 &&
		    ip_network_has(&network, &address))
			return;
	}
	const struct yaml_node *node = yaml_map_find(map, word);
	size_t at = config_enter(reader, word);
	config_tell(reader, CONFIG_WARNING, node,
	            "localhost is a loopback address; list such networks in allow");
	config_leave(reader, at);
}

/* The checks of the sink itself: URLs, templates, secrets. */
static void check_own(struct config_reader *reader, const struct yaml_node *map,
                      const struct config_sink *sink)
{
	struct error_text text = { "" };
	int error = check_outlet(sink, &text);
	if (error == -ENOMEM)
		reader->failed = error;
	else if (error != 0)
		tell_own(reader, map, sink, text.text);
	else if (sink->kind == CONFIG_SINK_HTTP || sink->kind == CONFIG_SINK_STILE)
		advise_allow(reader, map, sink);
}

static void finish_sink(struct config_sink *sink)
{
	struct limiter_policy *limiter = &sink->policy.limiter;
	if (limiter->rate > 0 && limiter->burst == 0) {
		uint64_t tenth = UINT64_C(100) * limiter->rate / limiter->per_ms;
		limiter->burst = tenth > 0 ? (uint32_t)tenth : 1;
	}
	if (!sink->steps_aside)
		sink->policy.stuck = (struct retry_policy){ 0 };
	sink->http.fresh = sink->http.idle_ms < 1000;
	sink->http.verdicts = sink->kind == CONFIG_SINK_STILE;
	sink->postgres.name = sink->name;
	sink->postgres.connect_ms = sink->http.connect_ms;
	sink->postgres.timeout_ms = sink->http.timeout_ms;
}

static void set_defaults(struct config_sink *sink)
{
	bool local = sink->kind == CONFIG_SINK_STDOUT || sink->kind == CONFIG_SINK_FILE;
	sink->policy = local ? deliver_policy_stdout() : deliver_policy_default();
	struct deliver_policy policy = sink->policy;
	config_set_defaults(SECTION, sink);
	if (local)
		sink->policy = policy;
	if (sink->kind ==
	    CONFIG_SINK_POSTGRES) { /* many share a transaction, one after the other */
		sink->policy.limiter.most = 1024;
		sink->policy.limiter.fixed = true;
	}
	sink->print = CONFIG_PRINT_AS_TOP;
}

static void read_map(struct config_reader *reader, const struct yaml_node *map,
                     struct config_sink *sink)
{
	uint32_t errors = reader->report->errors;
	const struct yaml_node *kind = find_kind(reader, map, &sink->kind);
	set_defaults(sink);
	config_read_section(reader, SECTION, map, sink);
	if (!kind)
		return;
	refuse_foreign(reader, map, sink->kind);
	read_rules(reader, sink);
	if (errors != reader->report->errors)
		return; /* one mistake, one message */
	check_needs(reader, map, sink);
	check_ranges(reader, map, sink);
	finish_sink(sink);
	if (errors == reader->report->errors)
		check_own(reader, map, sink);
}

static void read_sink(struct config_reader *reader, const struct yaml_node *node,
                      struct config_sink *ret_sink)
{
	struct config_sink *sink = config_alloc(reader, 1, sizeof(*sink));
	if (!sink || !config_check_name(reader, node->name) ||
	    !config_read_text(reader, node->name, &sink->name))
		return;
	if (span_eq(sink->name, SPAN("none")))
		config_tell(
			reader, CONFIG_ERROR, node->name,
			"found none, which has a meaning in routes (to: none), expected another name");
	if (span_eq(sink->name, SPAN("caller")))
		config_tell(
			reader, CONFIG_ERROR, node->name,
			"found caller, a reserved name (claims of the claims API: tickets --sink caller), expected another name");
	sink->place = (struct config_place){ node->name->line, node->name->column };
	sink->kind = CONFIG_SINK_KINDS; /* not known yet */
	if (node->kind == YAML_MAP && node->count > 0) {
		read_map(reader, node, sink);
	} else if (node->kind == YAML_TEXT && span_eq(node->text, SPAN("stdout"))) {
		sink->kind = CONFIG_SINK_STDOUT;
		set_defaults(sink);
	} else {
		tell_kind(reader, node);
	}
	*ret_sink = *sink;
}

void config_read_sinks(struct config_reader *reader, const struct yaml_node *map)
{
	struct config *config = reader->config;
	if (!config_is_map(reader, map))
		return;
	if (map->count == 0 || map->count > CONFIG_SINKS_MAX) {
		config_tell(reader, CONFIG_ERROR, map,
		            "found %u sinks, expected 1 to %u, such as out: stdout", map->count,
		            CONFIG_SINKS_MAX);
		return;
	}
	config->sinks = config_alloc(reader, map->count, sizeof(*config->sinks));
	for (const struct yaml_node *member = map->first; member && config->sinks;
	     member = member->next) {
		size_t at = config_enter(reader, member->name->text);
		if (!config_is_repeated(reader, map, member))
			read_sink(reader, member, &config->sinks[config->sink_count++]);
		config_leave(reader, at);
	}
}

void config_add_default_sink(struct config_reader *reader)
{
	struct config *config = reader->config;
	config->sinks = config_alloc(reader, 1, sizeof(*config->sinks));
	if (!config->sinks)
		return;
	config->sink_count = 1;
	*config->sinks = (struct config_sink){ .name = SPAN("stdout") };
	set_defaults(config->sinks);
}

/* ---- all of them ---- */

static void tell_sink(struct config_reader *reader, const struct config_sink *sink,
                      enum config_level level, const char *text)
{
	size_t at = config_enter(reader, SPAN("sinks"));
	config_enter(reader, sink->name);
	config_tell_at(reader, level, sink->place, "%s", text);
	config_leave(reader, at);
}

/* One sink at most: nobody could tell the lines of two sinks apart. */
static void check_stdout(struct config_reader *reader)
{
	const struct config *config = reader->config;
	bool found = false;
	for (uint32_t i = 0; i < config->sink_count; i++) {
		const struct config_sink *sink = &config->sinks[i];
		if (sink->name.len == 0 || sink->kind != CONFIG_SINK_STDOUT)
			continue;
		if (found)
			tell_sink(reader, sink, CONFIG_ERROR,
			          "is the second sink on standard output, expected one");
		found = true;
	}
}

/* Standard output is sink 0 in the journal, whatever its name: it needs no record there if
 * it is the only sink, and it stays the same when others are added. */
static void give_ids(struct config_reader *reader)
{
	struct config *config = reader->config;
	struct config_sink *sinks = config->sinks;
	for (uint32_t i = 0; i < config->sink_count; i++) {
		if (sinks[i].kind == CONFIG_SINK_STDOUT)
			continue;
		sinks[i].id = sink_id(sinks[i].name);
		if (sinks[i].name.len > 0 && sinks[i].id == STORE_SINK_CALLER)
			tell_sink(reader, &sinks[i], CONFIG_ERROR,
			          "has a number that no sink can have; choose another name");
		for (uint32_t j = 0; j < i; j++)
			if (sinks[i].name.len > 0 && sinks[j].id == sinks[i].id)
				tell_sink(reader, &sinks[i], CONFIG_ERROR,
				          "has the number of another sink; choose another name");
	}
}

static void check_files(struct config_reader *reader, const struct config_sink *sink)
{
	size_t at = config_enter(reader, SPAN("sinks"));
	config_enter(reader, sink->name);
	config_enter(reader, SPAN("tls"));
	config_check_pem(reader, "ca", sink->http.ca_file);
	config_check_pem(reader, "cert", sink->http.cert_file);
	config_check_pem(reader, "key", sink->http.key_file);
	config_leave(reader, at);
}

/* A dead letter sink has no dead letter sink itself: that could make a circle. */
static void check_dead_letter(struct config_reader *reader, struct config_sink *sink)
{
	const struct config_sink *to = config_find_sink(reader->config, sink->dead_letter);
	struct config_place place = config_mark_of(reader->config, sink->dead_letter.ptr).place;
	size_t at = config_enter(reader, SPAN("sinks"));
	config_enter(reader, sink->name);
	config_enter(reader, SPAN("dead_letter"));
	if (!to)
		config_tell_at(reader, CONFIG_ERROR, place, "there is no sink of that name");
	else if (to == sink || to->dead_letter.len > 0)
		config_tell_at(reader, CONFIG_ERROR, place,
		               "found %s, expected another sink, without a dead_letter of its own",
		               to->name.ptr);
	config_leave(reader, at);
	sink->policy.has_dead_sink = to != NULL;
	sink->policy.dead_sink = to ? to->id : 0;
}

void config_check_sinks(struct config_reader *reader)
{
	struct config *config = reader->config;
	for (uint32_t i = 0; i < config->sink_count; i++) {
		struct config_sink *sink = &config->sinks[i];
		if (sink->print == CONFIG_PRINT_AS_TOP)
			sink->print = config->serve.print_envelope ? CONFIG_PRINT_ENVELOPE
			                                           : CONFIG_PRINT_EVENT;
		sink->file.envelope = sink->print == CONFIG_PRINT_ENVELOPE;
	}
	check_stdout(reader);
	give_ids(reader);
	for (uint32_t i = 0; i < config->sink_count; i++) {
		if (config->sinks[i].dead_letter.len > 0)
			check_dead_letter(reader, &config->sinks[i]);
		check_files(reader, &config->sinks[i]);
	}
}
