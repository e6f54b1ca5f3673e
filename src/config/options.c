/* options: see options.h. */
#include "config/options.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>
#include <sys/un.h>

#include "base/exit_code.h"
#include "base/log.h"
#include "base/text.h"

#define UNIX_PATH_ROOM sizeof(((struct sockaddr_un *)NULL)->sun_path) /* with its NUL */

/* ---- "did you mean …?" ---- */

#define WORD_MAX 32u
#define NEAR_MAX 2u /* a larger distance is no misspelling */

/* - and _ are the same: flags have one, the file the other. */
static bool is_same(char a, char b)
{
	a = a == '_' ? '-' : span_lower(a);
	b = b == '_' ? '-' : span_lower(b);
	return a == b;
}

/* Edit distance; swapped letters count two, and long words are never near. */
static unsigned distance(struct span a, struct span b)
{
	unsigned row[WORD_MAX + 1];
	if (a.len > WORD_MAX || b.len > WORD_MAX)
		return WORD_MAX;
	for (size_t j = 0; j <= b.len; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= a.len; i++) {
		unsigned diagonal = row[0];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b.len; j++) {
			unsigned changed = diagonal + !is_same(a.ptr[i - 1], b.ptr[j - 1]);
			diagonal = row[j];
			unsigned least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
			row[j] = changed < least ? changed : least;
		}
	}
	return row[b.len];
}

struct suggest suggest_begin(struct span wrote)
{
	/* Two wrong letters are most of a short word. */
	return (struct suggest){ .wrote = wrote, .distance = (wrote.len < 4 ? 1 : NEAR_MAX) + 1 };
}

void suggest_offer(struct suggest *suggest, struct span word)
{
	unsigned d = distance(suggest->wrote, word);
	if (d < suggest->distance && d < word.len) {
		suggest->distance = d;
		suggest->best = word;
	}
}

void suggest_offer_choices(struct suggest *suggest, const char *choices)
{
	for (const char *word = choices; word && *word;) {
		size_t len = strcspn(word, "|");
		suggest_offer(suggest, span_of(word, len));
		word += len + (word[len] == '|');
	}
}

/* ---- options ---- */

static const struct option_old old_options[] = {
	{ "stay-awake", "store.local.stay_awake", NULL,
	  "it has no effect any more: remove it (no thread busy-waits now)" },
};

const struct option_old *option_old_flag(struct span name)
{
	for (size_t i = 0; i < ARRAY_LEN(old_options); i++)
		if (old_options[i].flag && span_eq(name, span_str(old_options[i].flag)))
			return &old_options[i];
	return NULL;
}

const struct option_old *option_old_path(struct span path)
{
	for (size_t i = 0; i < ARRAY_LEN(old_options); i++)
		if (old_options[i].path && span_eq(path, span_str(old_options[i].path)))
			return &old_options[i];
	return NULL;
}

static int unknown_option(struct option_table table, struct span name, struct error_text *ret_text)
{
	struct suggest suggest = suggest_begin(name);
	for (size_t i = 0; i < table.count; i++)
		suggest_offer(&suggest, span_str(table.options[i].name));
	if (suggest.best.len > 0)
		return error_fill(ret_text, -EINVAL, "unknown option --%.*s; did you mean --%s?",
		                  (int)name.len, name.ptr, suggest.best.ptr);
	return error_fill(ret_text, -EINVAL, "unknown option --%.*s", (int)name.len, name.ptr);
}

int option_choice(const char *choices, struct span word)
{
	int index = 0;
	for (const char *at = choices; *at; index++) {
		size_t len = strcspn(at, "|");
		if (span_eq(word, span_of(at, len)))
			return index;
		at += len + (at[len] == '|');
	}
	return -1;
}

static int read_choice(const struct option *option, const char *text, uint64_t *ret_value,
                       struct error_text *ret_expected)
{
	int index = option_choice(option->choices, span_str(text));
	if (index < 0)
		return error_fill(ret_expected, -EINVAL, "one of %s", option->choices);
	*ret_value = (uint64_t)index;
	return 0;
}

/* Names are not looked up: an address says which interface is meant. */
static bool is_host(const char *text, size_t len)
{
	char host[INET6_ADDRSTRLEN];
	unsigned char bytes[sizeof(struct in6_addr)];
	int family = AF_INET;
	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		family = AF_INET6;
		text++;
		len -= 2;
	}
	if (len >= sizeof(host))
		return false;
	memcpy(host, text, len);
	host[len] = '\0';
	return inet_pton(family, host, bytes) == 1;
}

/* Whether the machine has the address, binding tells. */
bool option_is_address(const char *text)
{
	const char *colon = strrchr(text, ':');
	uint64_t port = 0;
	return colon && is_host(text, (size_t)(colon - text)) &&
	       text_parse_u64(span_str(colon + 1), &port) == 0 && port <= 65535;
}

void option_url(const char *scheme, const char *address, uint16_t port, char *out, size_t room)
{
	const char *colon = strrchr(address, ':');
	if (option_is_unix(address))
		snprintf(out, room, "%s", address);
	else
		snprintf(out, room, "%s://%.*s:%u", scheme, (int)(colon - address), address, port);
}

bool option_is_unix(const char *text)
{
	return strncmp(text, "unix:/", 6) == 0 && text[6] != '\0' &&
	       strlen(text) < strlen("unix:") + UNIX_PATH_ROOM;
}

bool option_is_loopback(const char *text)
{
	return strncmp(text, "127.", 4) == 0 || strncmp(text, "[::1]:", 6) == 0 ||
	       option_is_unix(text);
}

/* A bound of the table, as one would write it. */
static void write_bound(const struct option *option, uint64_t value,
                        char ret_text[static TEXT_DURATION_MAX])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t unit = 0;
	switch (option->kind) {
	case OPTION_DURATION: text_duration(ret_text, value); return;
	case OPTION_SIZE:
		while (unit + 1 < ARRAY_LEN(units) && value >= 1024 && value % 1024 == 0) {
			value /= 1024;
			unit++;
		}
		snprintf(ret_text, TEXT_DURATION_MAX, "%" PRIu64 "%s", value, units[unit]);
		return;
	default: snprintf(ret_text, TEXT_DURATION_MAX, "%" PRIu64, value); return;
	}
}

static int read_units(const struct option *option, const char *text, uint64_t *ret_value,
                      const char **ret_expected)
{
	switch (option->kind) {
	case OPTION_SIZE:
		*ret_expected = "a size, such as 64KiB, 1MiB or 8GiB";
		return text_parse_size(span_str(text), ret_value, NULL);
	case OPTION_DURATION:
		*ret_expected = "a duration, such as 500ms, 10s, 5m, 24h or 4d";
		return text_parse_duration(span_str(text), ret_value, NULL);
	default: *ret_expected = "a whole number"; return text_parse_u64(span_str(text), ret_value);
	}
}

static int read_number(const struct option *option, const char *text, uint64_t *ret_value,
                       struct error_text *ret_expected)
{
	uint64_t value = 0;
	const char *expected;
	if (read_units(option, text, &value, &expected) != 0)
		return error_fill(ret_expected, -EINVAL, "%s", expected);
	if (option->max != 0 && (value < option->min || value > option->max)) {
		char low[TEXT_DURATION_MAX];
		char high[TEXT_DURATION_MAX];
		write_bound(option, option->min, low);
		write_bound(option, option->max, high);
		return error_fill(ret_expected, -EINVAL, "%s to %s", low, high);
	}
	*ret_value = value;
	return 0;
}

static int add_text(const struct option *option, const char *text, struct option_texts *texts,
                    struct error_text *ret_expected)
{
	if (text[0] == '\0')
		return error_fill(ret_expected, -EINVAL, "%s", option->value);
	if (texts->count == OPTION_TEXTS_MAX)
		return error_fill(ret_expected, -EINVAL, "at most %d of them", OPTION_TEXTS_MAX);
	texts->texts[texts->count++] = text;
	return 0;
}

int option_set(const struct option *option, const char *text, void *values,
               struct error_text *ret_expected)
{
	void *field = (char *)values + option->offset;
	switch (option->kind) {
	case OPTION_ADDRESS:
		if (!option_is_address(text))
			return error_fill(ret_expected, -EINVAL,
			                  "ADDR:PORT, such as 127.0.0.1:8080, 0.0.0.0:80 or "
			                  "[::1]:8080, with a port from 0 to 65535");
		*(const char **)field = text;
		return 0;
	case OPTION_LISTEN:
		if (strcmp(text, "none") != 0 && !option_is_address(text))
			return error_fill(ret_expected, -EINVAL,
			                  "none, or ADDR:PORT, such as 127.0.0.1:8081");
		*(const char **)field = text;
		return 0;
	case OPTION_UNIX:
		if (strcmp(text, "none") != 0 && !option_is_address(text) && !option_is_unix(text))
			return error_fill(ret_expected, -EINVAL,
			                  "none, or ADDR:PORT, such as 127.0.0.1:8081, or "
			                  "unix:/PATH of at most %zu bytes",
			                  UNIX_PATH_ROOM - 1);
		*(const char **)field = text;
		return 0;
	case OPTION_TEXT:
		if (text[0] == '\0')
			return error_fill(ret_expected, -EINVAL, "%s", option->value);
		*(const char **)field = text;
		return 0;
	case OPTION_FLAG: *(bool *)field = true; return 0;
	case OPTION_CHOICE: return read_choice(option, text, field, ret_expected);
	case OPTION_TEXTS: return add_text(option, text, field, ret_expected);
	default: return read_number(option, text, field, ret_expected);
	}
}

static int set_argument(const struct option *option, const char *text, void *values,
                        struct error_text *ret_text)
{
	struct error_text expected;
	if (option_set(option, text, values, &expected) == 0)
		return 0;
	CHECK(text); /* what takes no value cannot fail */
	if (text[0] == '\0')
		return error_fill(ret_text, -EINVAL, "--%s: found nothing, expected %s",
		                  option->name, expected.text);
	return error_fill(ret_text, -EINVAL, "--%s: found \"%s\", expected %s", option->name, text,
	                  expected.text);
}

const struct option *option_find(struct option_table table, struct span name)
{
	for (size_t i = 0; i < table.count; i++)
		if (span_eq(name, span_str(table.options[i].name)))
			return &table.options[i];
	return NULL;
}

void options_set_defaults(struct option_table table, void *values)
{
	for (size_t i = 0; i < table.count; i++) {
		const struct option *option = &table.options[i];
		if (option->standard && option->kind != OPTION_FLAG) {
			int error = option_set(option, option->standard, values, NULL);
			CHECK(error == 0); /* the table holds good defaults */
		}
	}
}

/* One argument that starts with "--"; *at steps over a value of its own. */
static int parse_option(struct option_table table, int argc, char **argv, int *at, void *values,
                        struct error_text *ret_text)
{
	const char *text = argv[*at] + 2;
	size_t len = strcspn(text, "=");
	struct span name = span_of(text, len);
	const struct option *option = option_find(table, name);
	const struct option_old *old = option ? NULL : option_old_flag(name);
	const char *value = text[len] == '=' ? text + len + 1 : NULL;
	if (old) {
		static const struct option_old *last; /* arguments are read again behind a file */
		if (old != last)
			log_warn("deprecated option used", log_span("option", name),
			         log_str("advice", old->advice));
		last = old;
		if (old->successor)
			option = option_find(table, span_str(old->successor));
		else if (!value && *at + 1 < argc)
			++*at;
		if (!option)
			return 0;
	}
	if (!option)
		return unknown_option(table, name, ret_text);
	if (option->kind == OPTION_FLAG && value)
		return error_fill(ret_text, -EINVAL, "--%s takes no value", option->name);
	if (option->kind != OPTION_FLAG && !value) {
		if (*at + 1 >= argc)
			return error_fill(ret_text, -EINVAL, "--%s: expected %s after it",
			                  option->name, option->value);
		value = argv[++*at];
	}
	return set_argument(option, value, values, ret_text);
}

int options_apply(struct option_table table, int argc, char **argv, void *values,
                  int *ret_rest_count, struct error_text *ret_text)
{
	int rest = 0;
	for (int i = 0; i < argc; i++) {
		if (strncmp(argv[i], "--", 2) != 0 || argv[i][2] == '\0') {
			if (argv[i][0] == '-' && argv[i][1] != '\0')
				return error_fill(ret_text, -EINVAL, "unknown option %s", argv[i]);
			argv[rest++] = argv[i];
			continue;
		}
		int error = parse_option(table, argc, argv, &i, values, ret_text);
		if (error != 0)
			return error;
	}
	*ret_rest_count = rest;
	return 0;
}

int options_parse(struct option_table table, int argc, char **argv, void *ret_values,
                  int *ret_rest_count, struct error_text *ret_text)
{
	options_set_defaults(table, ret_values);
	return options_apply(table, argc, argv, ret_values, ret_rest_count, ret_text);
}

void options_print(struct option_table table, FILE *out)
{
	for (size_t i = 0; i < table.count; i++) {
		const struct option *option = &table.options[i];
		char left[64];
		snprintf(left, sizeof(left), "--%s %s", option->name,
		         option->value ? option->value : "");
		fprintf(out, "  %-28s %s", left, option->help);
		if (option->standard)
			fprintf(out, " (default %s)", option->standard);
		fputc('\n', out);
	}
}

/* ---- commands ---- */

int command_usage_error(const char *command, const char *text)
{
	fprintf(stderr, "stile%s%s: %s\ntry: stile help%s%s\n", command ? " " : "",
	        command ? command : "", text, command ? " " : "", command ? command : "");
	return EXIT_CODE_USAGE;
}
