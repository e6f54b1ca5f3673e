/*
 * config_diff: what changes between two configurations, and whether a reload is enough.
 * See config.h.
 *
 * The table of options is walked over both. They are compared as they were understood:
 * after variables, files of secrets, defaults and what is inherited. Values of secrets are
 * compared, but only names of options leave this file, and the values of flags.
 */
#include <assert.h>
#include <inttypes.h>

#include "base/text.h"
#include "config/config.h"
#include "config/config_internal.h"

/* ---- one value ---- */

static const void *at(const void *base, size_t offset)
{
	return (const char *)base + offset;
}

static uint32_t count_of(const struct config_option *row, const void *base)
{
	return *(const uint32_t *)at(base, row->count_offset);
}

static const char *list_of(const struct config_option *row, const void *base)
{
	const void *field = at(base, row->offset);
	return row->inside ? field : *(const char *const *)field;
}

static bool same_string(const char *old, const char *new)
{
	return old && new ? strcmp(old, new) == 0 : old == new;
}

static bool same_texts(const struct span *old, uint32_t old_count, const struct span *new,
                       uint32_t new_count)
{
	bool same = old_count == new_count;
	for (uint32_t i = 0; same && i < new_count; i++)
		same = span_eq(old[i], new[i]);
	return same;
}

static bool same_conditions(const struct recipe_condition *old, uint32_t old_count,
                            const struct recipe_condition *new, uint32_t new_count)
{
	bool same = old_count == new_count;
	for (uint32_t i = 0; same && i < new_count; i++)
		same = span_eq(old[i].part, new[i].part) &&
		       span_eq(old[i].pattern, new[i].pattern) && old[i].negate == new[i].negate;
	return same;
}

/* Compares also the kind of the claim, which has no row of its own. */
static bool same_content(const struct recipe_claim_spec *old, const struct recipe_claim_spec *new)
{
	return old->kind == new->kind &&same_texts(old->parts, old->part_count, new->parts,
	                                           new->part_count) &&
	       same_texts(old->except, old->except_count, new->except, new->except_count);
}

static bool same_headers(const struct http_headers *old, const struct http_headers *new)
{
	bool same = old->count == new->count;
	for (uint32_t i = 0; same && i < new->count; i++)
		same = span_eq(old->list[i].name, new->list[i].name) &&
		       span_eq(old->list[i].value, new->list[i].value) &&
		       old->list[i].secret == new->list[i].secret;
	return same;
}

static bool same_flag(const struct option *flag, const struct config *old, const struct config *new)
{
	const void *a = at(&old->serve, flag->offset), *b = at(&new->serve, flag->offset);
	switch (flag->kind) {
	case OPTION_TEXT:
	case OPTION_ADDRESS:
	case OPTION_LISTEN:
	case OPTION_UNIX: return same_string(*(const char *const *)a, *(const char *const *)b);
	case OPTION_FLAG: return *(const bool *)a == *(const bool *)b;
	case OPTION_COUNT:
	case OPTION_SIZE:
	case OPTION_DURATION:
	case OPTION_CHOICE: return *(const uint64_t *)a == *(const uint64_t *)b;
	case OPTION_TEXTS: break;
	}
	CHECK(false); /* a flag of the configuration has one value */
	return false;
}

/* Collects the names of rows that differ. */
struct names {
	struct buf text;
	size_t skip; /* of their paths: the section that is compared */
};

/* `sinks`: enum config_sinks, whose rows count. `names` NULL: one that differs is enough. */
static bool rows_differ(const char *section, uint8_t sinks, const void *old, const void *new,
                        struct names *names);

static bool same_list(const struct config_option *row, const void *old, const void *new)
{
	char section[64];
	const char *a = list_of(row, old), *b = list_of(row, new);
	bool same = count_of(row, old) == count_of(row, new);
	snprintf(section, sizeof(section), "%s[]", row->path);
	for (uint32_t i = 0; same && a != b && i < count_of(row, new); i++)
		same = !rows_differ(row->rows_of ? row->rows_of : section, 0, a + i * row->size,
		                    b + i * row->size, NULL);
	return same;
}

/* Of a row that is neither a section nor a flag. */
static bool same_value(const struct config_option *row, const void *old, const void *new)
{
	const void *a = at(old, row->offset), *b = at(new, row->offset);
	switch (row->kind) {
	case CONFIG_TEXT:
	case CONFIG_PATH:
	case CONFIG_PRESET:
	case CONFIG_PART:
	case CONFIG_SECRET:
	case CONFIG_URL:
	case CONFIG_STORE_URL: return span_eq(*(const struct span *)a, *(const struct span *)b);
	case CONFIG_STRING: return same_string(*(const char *const *)a, *(const char *const *)b);
	case CONFIG_CHOICE:
	case CONFIG_SECONDS:
	case CONFIG_MS:
	case CONFIG_COUNT:
	case CONFIG_SIZE: return memcmp(a, b, row->size) == 0;
	case CONFIG_PARTS:
	case CONFIG_TEXTS:
	case CONFIG_SECRETS:
	case CONFIG_NETWORKS: return same_texts(a, count_of(row, old), b, count_of(row, new));
	case CONFIG_WHEN: return same_conditions(a, count_of(row, old), b, count_of(row, new));
	case CONFIG_CONTENT: return same_content(a, b);
	case CONFIG_HEADERS: return same_headers(a, b);
	case CONFIG_RATE: {
		const struct limiter_policy *was = a, *is = b;
		return was->rate == is->rate && was->per_ms == is->per_ms;
	}
	case CONFIG_LIST: return same_list(row, old, new);
	case CONFIG_FLAG:
	case CONFIG_SECTION:
	case CONFIG_NAMED: break;
	}
	CHECK(false); /* a row with one value */
	return false;
}

/* ---- the rows of a section ---- */

static void put_name(struct names *names, const char *name)
{
	buf_printf(&names->text, "%s %s", names->text.len > 0 ? "," : "changed:", name);
}

static bool rows_differ(const char *section, uint8_t sinks, const void *old, const void *new,
                        struct names *names)
{
	bool differ = false;
	const struct config_option *row;
	for (size_t i = 0; (row = config_table_row(i)) && (names || !differ); i++) {
		if (!config_option_in(row, section, NULL) ||
		    (row->sinks != 0 && sinks != 0 && !(row->sinks & sinks)))
			continue;
		if (row->kind == CONFIG_SECTION) {
			differ = rows_differ(row->path, sinks, at(old, row->offset),
			                     at(new, row->offset), names) ||
			         differ;
		} else if (!same_value(row, old, new)) {
			differ = true;
			if (names)
				put_name(names, row->path + names->skip);
		}
	}
	return differ;
}

/* Beside the rows: the kind, the number of the sink for dead letters, and the name, which
 * standard output can change while it stays the same sink. */
static bool sinks_differ(const struct config_sink *old, const struct config_sink *new,
                         struct names *names)
{
	bool kind = old->kind != new->kind, dead = old->policy.dead_sink != new->policy.dead_sink;
	uint8_t sinks = (uint8_t)(1u << old->kind | 1u << new->kind);
	if (names && kind)
		put_name(names, "kind");
	if (names && dead && span_eq(old->dead_letter, new->dead_letter))
		put_name(names, "dead_letter");
	return rows_differ("sinks.*", sinks, old, new, names) || kind || dead ||
	       !span_eq(old->name, new->name);
}

bool config_sink_changed(const struct config_sink *old, const struct config_sink *new)
{
	return sinks_differ(old, new, NULL);
}

/* ---- changes ---- */

static int add(struct config_diff *diff, const char *option, bool reloads, const char *text)
{
	struct span name = arena_copy(&diff->arena, span_str(option));
	struct span copy = arena_copy(&diff->arena, span_str(text));
	if (!name.ptr || !copy.ptr)
		return -ENOMEM;
	diff->changes[diff->count++] = (struct config_change){ name.ptr, reloads, copy.ptr };
	diff->restarts += !reloads;
	return 0;
}

static int add_named(struct config_diff *diff, const struct config_option *row, struct span name,
                     const char *text)
{
	char option[16 + 64];
	snprintf(option, sizeof(option), "%s.%.*s", row->path, (int)name.len, name.ptr);
	return add(diff, option, config_option_reloads(row), text);
}

static struct span name_of(const void *named)
{
	static_assert(offsetof(struct config_source, name) == 0, "see CONFIG_NAMED");
	static_assert(offsetof(struct config_sink, name) == 0, "see CONFIG_NAMED");
	return *(const struct span *)named;
}

static const void *find_named(const struct config_option *row, const void *base, struct span name)
{
	const char *list = list_of(row, base);
	for (uint32_t i = 0; i < count_of(row, base); i++)
		if (span_eq(name_of(list + i * row->size), name))
			return list + i * row->size;
	return NULL;
}

static int compare_named(struct config_diff *diff, const struct config_option *row, const void *old,
                         const void *new)
{
	char memory[256], section[32];
	const char *list = list_of(row, old);
	int error = 0;
	for (uint32_t i = 0; error == 0 && i < count_of(row, old); i++)
		if (!find_named(row, new, name_of(list + i * row->size)))
			error = add_named(diff, row, name_of(list + i * row->size), "removed");
	list = list_of(row, new);
	int len = snprintf(section, sizeof(section), "%s.*", row->path);
	bool sinks = strcmp(row->path, "sinks") == 0;
	for (uint32_t i = 0; error == 0 && i < count_of(row, new); i++) {
		const void *is = list + i * row->size, *was = find_named(row, old, name_of(is));
		struct names names = { buf_on(memory, sizeof(memory) - 1), (size_t)len + 1 };
		if (!was) {
			error = add_named(diff, row, name_of(is), "added");
		} else if (sinks ? sinks_differ(was, is, &names)
		                 : rows_differ(section, 0, was, is, &names)) {
			memory[names.text.len] = '\0';
			error = add_named(diff, row, name_of(is),
			                  names.text.failed ? "changed" : memory);
		}
	}
	return error;
}

/* As one would write it. */
static void write_value(const struct option *option, const struct serve_options *serve,
                        char *ret_text, size_t size)
{
	const void *field = at(serve, option->offset);
	char duration[TEXT_DURATION_MAX];
	uint64_t number;
	switch (option->kind) {
	case OPTION_TEXT:
	case OPTION_LISTEN:
	case OPTION_UNIX:
	case OPTION_ADDRESS: {
		const char *text = *(const char *const *)field;
		snprintf(ret_text, size, "%s", text ? text : "nothing");
		return;
	}
	case OPTION_FLAG: snprintf(ret_text, size, "%d", *(const bool *)field); return;
	default: number = *(const uint64_t *)field; break;
	}
	if (option->kind == OPTION_DURATION) {
		text_duration(duration, number);
		snprintf(ret_text, size, "%s", duration);
	} else if (option->kind == OPTION_CHOICE) {
		const char *word = option->choices;
		for (uint64_t i = 0; i < number; i++)
			word += strcspn(word, "|") + 1;
		snprintf(ret_text, size, "%.*s", (int)strcspn(word, "|"), word);
	} else {
		snprintf(ret_text, size, "%" PRIu64, number);
	}
}

static int compare_flag(struct config_diff *diff, const struct config_option *row,
                        const struct config *old, const struct config *new)
{
	char was[256], is[256], text[600];
	const struct option *flag = config_option_flag(row);
	if (same_flag(flag, old, new))
		return 0;
	write_value(flag, &old->serve, was, sizeof(was));
	write_value(flag, &new->serve, is, sizeof(is));
	snprintf(text, sizeof(text), "%s becomes %s", was, is);
	return add(diff, row->path, config_option_reloads(row), text);
}

/* The rows of the top and of its sections, whose structs are at `offset` in the
 * configuration. */
static int compare_section(struct config_diff *diff, const char *section, size_t offset,
                           const struct config_states *states)
{
	const void *new = at(states->next, offset);
	const struct config_option *row;
	int error = 0;
	for (size_t i = 0; error == 0 && (row = config_table_row(i)); i++) {
		const struct config *whole = config_option_reloads(row) ? states->last
		                                                        : states->start;
		const void *old = at(whole, offset);
		if (!config_option_in(row, section, NULL))
			continue;
		if (row->kind == CONFIG_SECTION)
			error = compare_section(diff, row->path, offset + row->offset, states);
		else if (row->kind == CONFIG_FLAG)
			error = compare_flag(diff, row, whole, states->next);
		else if (row->kind == CONFIG_NAMED)
			error = compare_named(diff, row, old, new);
		else if (!same_value(row, old, new))
			error = add(diff, row->path, config_option_reloads(row), "changed");
	}
	return error;
}

int config_diff(const struct config_states *states, struct config_diff *ret_diff)
{
	struct config_diff diff = { 0 };
	size_t most = states->last->source_count + states->next->source_count +
	              states->last->sink_count + states->next->sink_count;
	for (size_t i = 0; config_table_row(i); i++)
		most++;
	diff.changes = arena_alloc(&diff.arena, most * sizeof(*diff.changes));
	int error = diff.changes ? compare_section(&diff, "", 0, states) : -ENOMEM;
	if (error != 0) {
		config_diff_free(&diff);
		return error;
	}
	*ret_diff = diff;
	return 0;
}

void config_diff_free(struct config_diff *diff)
{
	arena_free(&diff->arena);
	*diff = (struct config_diff){ 0 };
}
