/* recipe_compile: from texts to numbers. See recipe.h, recipe_spec.h. */
#include <stdarg.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "gate/recipe/recipe_internal.h"

struct compiler {
	struct recipe *recipe;
	const struct recipe_spec *spec;
	const struct recipe_case_spec *of; /* the present case */
	struct recipe_problem *problem;
};

printf_like(3, 4) static int refuse(const struct compiler *c, size_t column, const char *format,
                                    ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(c->problem->text.text, sizeof(c->problem->text.text), format, args);
	va_end(args);
	c->problem->column = (uint32_t)column;
	return ERR_CONFIG;
}

static int keep_text(struct compiler *c, struct span text, struct span *ret_copy)
{
	struct span copy = arena_copy(&c->recipe->arena, text);
	if (!copy.ptr)
		return -ENOMEM;
	*ret_copy = copy;
	return 0;
}

static int add_header(struct compiler *c, struct span name, uint8_t *ret_place)
{
	struct recipe_headers *headers = &c->recipe->headers;
	for (uint32_t i = 0; i < headers->count; i++)
		if (span_eq_nocase(headers->names[i], name)) {
			*ret_place = (uint8_t)i;
			return 0;
		}
	if (headers->count == RECIPE_HEADERS_MAX)
		return refuse(c, 0, "expected at most %d different headers", RECIPE_HEADERS_MAX);
	int error = keep_text(c, name, &headers->names[headers->count]);
	if (error < 0)
		return error;
	*ret_place = (uint8_t)headers->count++;
	return 0;
}

static int add_node(struct compiler *c, struct json_plan *plan, const struct json_path *path,
                    uint8_t *ret_node)
{
	if (json_plan_add(plan, path, ret_node) < 0)
		return refuse(c, 0,
		              "expected fewer different paths: a recipe has room for %d names",
		              JSON_NODES_MAX - 2);
	return 0;
}

/* The steps from `from` up to a [*] (or the end), as a path of their own. */
static struct json_path cut_path(const struct json_path *path, uint32_t from)
{
	struct json_path piece = { .count = 0 };
	for (; from < path->count && path->steps[from].kind != JSON_STEP_EACH; from++)
		piece.steps[piece.count++] = path->steps[from];
	return piece;
}

/* Each list holds the steps after one [*]. */
static int compile_lists(struct compiler *c, const struct json_path *path,
                         struct recipe_list **ret_list)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < path->count; i++) {
		if (path->steps[i].kind != JSON_STEP_EACH)
			continue;
		if (++count > RECIPE_LISTS_MAX)
			return refuse(c, 0, "expected at most %d times [*] in a path",
			              RECIPE_LISTS_MAX);
		struct recipe_list *list = arena_alloc(&c->recipe->arena, sizeof(*list));
		if (!list)
			return -ENOMEM;
		struct json_path piece = cut_path(path, i + 1);
		json_plan_init(&list->plan);
		int error = piece.count ? add_node(c, &list->plan, &piece, &list->node) : 0;
		if (error < 0)
			return error;
		json_plan_seal(&list->plan);
		*ret_list = list;
		ret_list = &list->inner;
	}
	return 0;
}

static int compile_path(struct compiler *c, struct recipe_part *part, struct span text)
{
	struct json_path path;
	struct json_problem problem = { .offset = 0 };
	if (json_path_parse(text, &path, &problem) < 0)
		return refuse(c, problem.offset, "expected %s", problem.expected);
	part->of_body = true;
	struct json_path piece = cut_path(&path, 0);
	part->kind = piece.count < path.count ? PART_LIST : PART_JSON;
	if (piece.count == 0)
		part->node = JSON_ROOT;
	int error = piece.count ? add_node(c, &c->recipe->plan, &piece, &part->node) : 0;
	if (piece.count == 0)
		c->recipe->plan.nodes[JSON_ROOT].wanted = true;
	return error ? error : compile_lists(c, &path, &part->list);
}

struct prefix {
	struct span text;
	enum recipe_part_kind kind;
};

static const struct prefix prefixes[] = {
	{ { "header:", 7 }, PART_HEADER }, { { "query:", 6 }, PART_QUERY },
	{ { "path:", 5 }, PART_PATH },     { { "form:", 5 }, PART_FORM },
	{ { "const:", 6 }, PART_CONST },
};

static int compile_part(struct compiler *c, struct span text, struct recipe_part *part)
{
	int error = keep_text(c, text, &part->text);
	if (error < 0)
		return error;
	text = part->text;
	const struct prefix *prefix = NULL;
	for (size_t i = 0; !prefix && i < ARRAY_LEN(prefixes); i++)
		if (span_starts(text, prefixes[i].text))
			prefix = &prefixes[i];
	bool constant = prefix && prefix->kind == PART_CONST;
	if (!constant && text.len > 1 && text.ptr[text.len - 1] == '?') {
		part->optional = true;
		text.len--;
	}
	if (text.len == 0)
		return refuse(c, 0, "expected a part, such as orderId or header:X-Request-Id");
	if (prefix) {
		size_t column = prefix->text.len;
		part->kind = prefix->kind;
		part->of_body = part->kind == PART_FORM;
		part->name = span_skip(text, column);
		if (part->kind == PART_HEADER) {
			if (part->name.len == 0 || part->name.len > RECIPE_HEADER_NAME_MAX)
				return refuse(c, column,
				              "expected a header's name of 1 to %d characters",
				              RECIPE_HEADER_NAME_MAX);
			for (size_t i = 0; i < part->name.len; i++)
				if (!http1_is_token_char(part->name.ptr[i]))
					return refuse(c, column + i, "expected a header's name");
			bool cloudevents = part->name.len > 3 &&
			                   span_eq_nocase(span_of(part->name.ptr, 3), SPAN("ce-"));
			part->coding = cloudevents ? EVENT_TEXT_HEADER : EVENT_TEXT_PLAIN;
			return add_header(c, part->name, &part->header);
		}
		if (part->kind == PART_PATH) {
			uint64_t number = 0;
			if (text_parse_u64(part->name, &number) < 0 || number < 1 || number > 64)
				return refuse(
					c, column,
					"expected the number of a segment of the path, 1 to 64");
			part->segment = (uint32_t)number;
			return 0;
		}
		if (part->name.len == 0)
			return refuse(c, column, "expected a name or text after %.*s",
			              (int)prefix->text.len, prefix->text.ptr);
		return 0;
	}
	if (!span_eq(text, SPAN("body")))
		return compile_path(c, part, text);
	part->kind = PART_BODY;
	part->of_body = true;
	return 0;
}

/* The number of a part; the same text is the same part. 0 for no text. */
static int add_part(struct compiler *c, struct span text, uint16_t *ret_part)
{
	struct recipe *recipe = c->recipe;
	*ret_part = 0;
	if (text.len == 0)
		return 0;
	for (uint32_t i = 1; i < recipe->part_count; i++)
		if (span_eq(recipe->parts[i].text, text)) {
			*ret_part = (uint16_t)i;
			return 0;
		}
	if (recipe->part_count == RECIPE_PARTS_MAX)
		return refuse(c, 0, "expected at most %d different parts", RECIPE_PARTS_MAX - 1);
	struct recipe_part part = { .kind = PART_NONE };
	int error = compile_part(c, text, &part);
	if (error < 0)
		return error;
	recipe->parts[recipe->part_count] = part;
	*ret_part = (uint16_t)recipe->part_count++;
	return 0;
}

/* The words of a case stand for what it reads. */
static struct span resolve_word(const struct compiler *c, struct span text)
{
	if (span_eq(text, SPAN("type")) && c->of->type.len)
		return c->of->type;
	if (span_eq(text, SPAN("id")) && c->of->id.len)
		return c->of->id;
	if (span_eq(text, SPAN("entity")) && c->of->entity.len)
		return c->of->entity;
	return text;
}

static int add_test(struct compiler *c, const struct recipe_condition *condition,
                    uint16_t *ret_test)
{
	struct recipe *recipe = c->recipe;
	struct recipe_test test = { .negate = condition->negate };
	if (condition->part.len == 0)
		return refuse(c, 0, "expected a part that the condition is about");
	int error = add_part(c, resolve_word(c, condition->part), &test.part);
	if (error < 0)
		return error;
	for (uint32_t i = 1; i < recipe->test_count; i++) {
		const struct recipe_test *other = &recipe->tests[i];
		if (other->part == test.part && other->negate == test.negate &&
		    span_eq_nocase(other->text, condition->pattern) &&
		    (other->nocase || span_eq(other->text, condition->pattern))) {
			*ret_test = (uint16_t)i;
			return 0;
		}
	}
	if (recipe->test_count == RECIPE_TESTS_MAX)
		return refuse(c, 0, "expected at most %d different conditions",
		              RECIPE_TESTS_MAX - 1);
	error = keep_text(c, condition->pattern, &test.text);
	const struct recipe_part *part = &recipe->parts[test.part];
	test.nocase = part->kind == PART_HEADER && part->header == HEADER_CONTENT_TYPE;
	for (size_t i = 0; error == 0 && test.nocase && i < test.text.len; i++) {
		char *at = (char *)(uintptr_t)test.text.ptr + i; /* our own copy */
		*at = span_lower(*at);
	}
	if (error < 0)
		return error;
	test.any = test.text.len == 0;
	if (pattern_split(test.text, &test.pattern) < 0)
		return refuse(c, 0, "expected at most %d stars in a pattern",
		              PATTERN_PIECES_MAX - 1);
	recipe->tests[recipe->test_count] = test;
	*ret_test = (uint16_t)recipe->test_count++;
	return 0;
}

static int add_tests(struct compiler *c, const struct recipe_condition *conditions, uint32_t count,
                     uint16_t *ret_tests)
{
	c->problem->field = "condition";
	if (count > RECIPE_SPEC_CONDITIONS_MAX)
		return refuse(c, 0, "expected at most %d conditions", RECIPE_SPEC_CONDITIONS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		c->problem->index = (int)i;
		int error = add_test(c, &conditions[i], &ret_tests[i]);
		if (error < 0)
			return error;
	}
	c->problem->index = -1;
	return 0;
}

static int compile_except(struct compiler *c, const struct recipe_claim_spec *spec,
                          struct recipe_claim *claim)
{
	c->problem->field = "except";
	if (spec->except_count == 0)
		return 0;
	if (spec->kind != CLAIM_CONTENT || spec->except_count > RECIPE_SPEC_PARTS_MAX)
		return refuse(c, 0, "expected at most %d, in a content claim only",
		              RECIPE_SPEC_PARTS_MAX);
	claim->except = arena_alloc(&c->recipe->arena, sizeof(*claim->except));
	if (!claim->except)
		return -ENOMEM;
	json_plan_init(claim->except);
	for (uint32_t i = 0; i < spec->except_count; i++) {
		struct json_path path;
		struct json_problem problem = { .offset = 0 };
		uint8_t node;
		c->problem->index = (int)i;
		if (json_path_parse(spec->except[i], &path, &problem) < 0)
			return refuse(c, problem.offset, "expected %s", problem.expected);
		int error = add_node(c, claim->except, &path, &node);
		if (error < 0)
			return error;
	}
	c->problem->index = -1;
	json_plan_seal(claim->except);
	return 0;
}

static int compile_parts(struct compiler *c, const struct recipe_claim_spec *spec,
                         struct recipe_claim *claim)
{
	c->problem->field = "part";
	if (spec->part_count > RECIPE_SPEC_PARTS_MAX)
		return refuse(c, 0, "expected at most %d parts", RECIPE_SPEC_PARTS_MAX);
	if (spec->part_count == 0 && spec->kind != CLAIM_CONTENT)
		return refuse(c, 0, "expected at least one part");
	claim->part_count = (uint8_t)spec->part_count;
	claim->of_body = spec->part_count == 0;
	bool needed = spec->part_count == 0;
	for (uint32_t i = 0; i < spec->part_count; i++) {
		c->problem->index = (int)i;
		if (spec->parts[i].len == 0)
			return refuse(c, 0, "expected a part");
		int error = add_part(c, spec->parts[i], &claim->parts[i]);
		if (error < 0)
			return error;
		const struct recipe_part *part = &c->recipe->parts[claim->parts[i]];
		claim->of_body |= part->of_body;
		needed |= !part->optional && part->kind != PART_CONST;
	}
	c->problem->index = -1;
	/* Else events that have none of it would all be the same. */
	if (!needed)
		return refuse(c, 0, "expected a part that must be there");
	return 0;
}

static int compile_newest(struct compiler *c, const struct recipe_claim_spec *spec,
                          struct recipe_claim *claim)
{
	bool newest = spec->kind == CLAIM_NEWEST;
	c->problem->field = "time";
	if (newest != (spec->time.len > 0))
		return refuse(c, 0,
		              newest ? "expected the part that holds the time"
		                     : "expected no time but in a newest claim");
	int error = add_part(c, spec->time, &claim->time);
	c->problem->field = "rank";
	if (error == 0 && (spec->rank.len > 0) != (spec->rank_count > 0))
		return refuse(c, 0, "expected a part and its values, the lowest first");
	if (error == 0 &&
	    (spec->rank_count > RECIPE_SPEC_RANKS_MAX || (spec->rank_count && !newest)))
		return refuse(c, 0, "expected at most %d values, in a newest claim only",
		              RECIPE_SPEC_RANKS_MAX);
	if (error == 0)
		error = add_part(c, spec->rank, &claim->rank);
	claim->rank_count = (uint8_t)spec->rank_count;
	for (uint32_t i = 0; error == 0 && i < spec->rank_count; i++)
		error = keep_text(c, spec->ranks[i], &claim->ranks[i]);
	c->problem->field = "missing";
	if (error == 0 && newest && spec->missing == RECIPE_MISSING_DIGEST)
		return refuse(c, 0, "expected reject or skip: the body has no order in time");
	return error;
}

/* A claim's own text: its kind, parts and exceptions. */
static void write_own_text(const struct recipe_claim_spec *spec, struct buf *out)
{
	static const char *const kinds[] = { "", "content:", "newest:" };
	buf_append_span(out, span_str(kinds[spec->kind]));
	for (uint32_t i = 0; i < spec->part_count; i++) {
		buf_append_span(out, spec->parts[i]);
		buf_append_char(out, ',');
	}
	for (uint32_t i = 0; i < spec->except_count; i++) {
		buf_append_char(out, '-');
		buf_append_span(out, spec->except[i]);
		buf_append_char(out, ',');
	}
}

static int compile_claim(struct compiler *c, const struct recipe_claim_spec *spec,
                         struct recipe_claim *claim)
{
	struct recipe *recipe = c->recipe;
	CHECK((unsigned)spec->kind <= CLAIM_NEWEST && (unsigned)spec->missing <= 2);
	claim->kind = spec->kind;
	claim->window_s = spec->window_s ? spec->window_s : recipe->window_s;
	claim->missing = spec->missing;
	claim->shadow = spec->shadow || c->spec->shadow;
	claim->equal_drops = spec->equal_drops;
	claim->test_count = (uint8_t)spec->condition_count;
	if (claim->window_s > recipe->window_max_s)
		recipe->window_max_s = claim->window_s;
	int error = add_tests(c, spec->conditions, spec->condition_count, claim->tests);
	if (error == 0)
		error = compile_parts(c, spec, claim);
	if (error == 0)
		error = compile_except(c, spec, claim);
	if (error == 0)
		error = compile_newest(c, spec, claim);
	if (error)
		return error;
	/* The name that stands in the digest; a long text is hashed, which is no secret. */
	char hashed[DIGEST_RULE_MAX];
	struct buf text = { .cap = 1 << 16 };
	struct span name = spec->name;
	c->problem->field = "name";
	if (name.len == 0) {
		write_own_text(spec, &text);
		name = buf_span(&text);
		if (name.len > DIGEST_RULE_MAX) {
			uint64_t hash = hash_checksum64(name.ptr, name.len, 0);
			int len = snprintf(hashed, sizeof(hashed), "#%016llx",
			                   (unsigned long long)hash);
			name = span_of(hashed, (size_t)len);
		}
	}
	/* For people, without the mark that ends a list in the digest. */
	char last = spec->name.len == 0 && name.len > 0 ? name.ptr[name.len - 1] : '\0';
	struct span shown = span_of(name.ptr, name.len - (last == ',' || last == ':'));
	error = text.failed ? -ENOMEM : keep_text(c, shown, &claim->name);
	if (error == 0 && digest_scope_init(&claim->scope, c->recipe->scope, name) < 0)
		error = refuse(c, 0, "expected a name of at most %d bytes", DIGEST_RULE_MAX);
	buf_free(&text);
	return error;
}

static int compile_claims(struct compiler *c, struct recipe_case *it)
{
	const struct recipe_case_spec *spec = c->of;
	uint32_t least = spec->items.len ? 0 : 1;
	uint32_t most = spec->items.len ? 0 : CLAIMS_MAX;
	c->problem->field = "claims";
	if (spec->claim_count < least || spec->claim_count > most)
		return refuse(c, 0, "expected %u to %u claims, found %u", least, most,
		              spec->claim_count);
	it->claim_count = (uint8_t)spec->claim_count;
	it->claims = arena_alloc(&c->recipe->arena, sizeof(*it->claims) * (it->claim_count + 1u));
	if (!it->claims)
		return -ENOMEM;
	for (uint32_t i = 0; i < spec->claim_count; i++) {
		c->problem->claim_index = (int)i;
		int error = compile_claim(c, &spec->claims[i], &it->claims[i]);
		if (error < 0)
			return error;
		/* Two claims with one name would share their memory: each would find the keys
		 * of the other. Cases may share a name: an event has only one case. */
		c->problem->field = "name";
		for (uint32_t j = 0; j < i && spec->claims[i].name.len > 0; j++)
			if (span_eq(spec->claims[j].name, spec->claims[i].name))
				return refuse(c, 0,
				              "expected another name: two claims of one recipe "
				              "with one name would share their memory");
	}
	c->problem->claim_index = -1;
	return 0;
}

static int compile_fields(struct compiler *c, struct recipe_case *it)
{
	const struct recipe_case_spec *spec = c->of;
	const struct {
		const char *name;
		struct span text;
	} fields[FIELD_COUNT] = {
		[FIELD_ID] = { "id", spec->id },
		[FIELD_TYPE] = { "type", spec->type },
		[FIELD_ENTITY] = { "entity", spec->entity },
		[FIELD_TIME] = { "time", spec->time },
		[FIELD_CORRELATION] = { "correlation", spec->correlation },
		[FIELD_ORIGIN] = { "origin", spec->origin },
		[FIELD_REPLAY] = { "replay", spec->replay },
		[FIELD_CONTENT] = { "content", spec->content },
		[FIELD_INNER] = { "inner", spec->inner },
		[FIELD_ITEMS] = { "items", spec->items },
	};
	for (int i = 0; i < FIELD_COUNT; i++) {
		c->problem->field = fields[i].name;
		int error = add_part(c, fields[i].text, &it->fields[i]);
		if (error < 0)
			return error;
		enum recipe_part_kind kind = c->recipe->parts[it->fields[i]].kind;
		if (kind == PART_LIST && i != FIELD_CONTENT)
			return refuse(c, 0, "expected one value, not a list");
		if ((i == FIELD_ITEMS || i == FIELD_INNER) && it->fields[i] && kind != PART_JSON)
			return refuse(c, 0, "expected a member of the body");
	}
	return 0;
}

static int compile_case(struct compiler *c, struct recipe_case *it)
{
	struct span name = span_str(c->of->name ? c->of->name : "event");
	int error = keep_text(c, name, &name);
	if (error < 0)
		return error;
	it->name = name.ptr; /* the arena's copies end with a NUL */
	it->test_count = (uint8_t)c->of->condition_count;
	error = add_tests(c, c->of->conditions, c->of->condition_count, it->tests);
	if (error == 0)
		error = compile_fields(c, it);
	if (error == 0)
		error = compile_claims(c, it);
	if (error == 0) {
		/* What must be there for the case to hold: found out before any test is made. */
		struct recipe_needs *needs = &c->recipe->needs[it - c->recipe->cases];
		for (uint32_t i = 0; i < it->test_count; i++) {
			const struct recipe_test *test = &c->recipe->tests[it->tests[i]];
			const struct recipe_part *part = &c->recipe->parts[test->part];
			it->body_tests |= part->of_body;
			if (test->negate)
				continue;
			if (part->kind == PART_JSON)
				json_set_put(&needs->nodes, part->node);
			if (part->kind == PART_HEADER)
				needs->headers |= 1u << part->header;
		}
		it->whole = false;
		for (uint32_t i = 0; i < it->claim_count && !it->body_tests; i++)
			it->whole |= !it->claims[i].of_body;
	}
	return error;
}

static int compile_names(struct compiler *c)
{
	const struct recipe_spec *spec = c->spec;
	struct span scope = spec->scope.len ? spec->scope : spec->source;
	uint8_t place;
	c->problem->field = "source";
	if (spec->source.len < 1 || spec->source.len > DIGEST_SOURCE_MAX)
		return refuse(c, 0, "a source's name must have 1 to %d bytes", DIGEST_SOURCE_MAX);
	c->problem->field = "scope";
	if (scope.len > DIGEST_SOURCE_MAX)
		return refuse(c, 0, "a scope must have 1 to %d bytes", DIGEST_SOURCE_MAX);
	c->problem->field = "window";
	if (spec->window_s == 0)
		return refuse(c, 0, "a window must be at least one second");
	c->problem->field = "cases";
	if (spec->case_count == 0 || spec->case_count > UINT16_MAX)
		return refuse(c, 0, "expected at least one case");
	int error = keep_text(c, spec->source, &c->recipe->source);
	if (error == 0)
		error = keep_text(c, scope, &c->recipe->scope);
	if (error == 0)
		error = add_header(c, SPAN("content-type"), &place);
	CHECK(error < 0 || place == HEADER_CONTENT_TYPE);
	return error;
}

int recipe_compile(const struct recipe_spec *spec, const unsigned char key[static DIGEST_KEY_LEN],
                   struct recipe **ret_recipe, struct recipe_problem *ret_problem)
{
	struct recipe_problem problem = {
		.case_index = -1, .claim_index = -1, .index = -1, .field = "recipe"
	};
	struct recipe *recipe = mem_zalloc(1, sizeof(*recipe));
	if (!recipe)
		return -ENOMEM;
	struct compiler c = { .recipe = recipe, .spec = spec, .problem = &problem };
	memcpy(recipe->key, key, DIGEST_KEY_LEN);
	hash_secret_init(&recipe->content_secret, key, "content");
	int error = compile_names(&c);
	if (error == 0) {
		struct arena *arena = &recipe->arena;
		recipe->parts = arena_alloc(arena, RECIPE_PARTS_MAX * sizeof(*recipe->parts));
		recipe->tests = arena_alloc(arena, RECIPE_TESTS_MAX * sizeof(*recipe->tests));
		recipe->cases = arena_alloc(arena, spec->case_count * sizeof(*recipe->cases));
		recipe->needs = arena_alloc(arena, spec->case_count * sizeof(*recipe->needs));
		if (!recipe->parts || !recipe->tests || !recipe->cases || !recipe->needs)
			error = -ENOMEM;
	}
	recipe->part_count = 1; /* number 0 is none */
	recipe->test_count = 1;
	json_plan_init(&recipe->plan);
	recipe->window_s = spec->window_s;
	recipe->batch = spec->batch;
	recipe->replay_passes = spec->replay_passes;
	recipe->compare_values = spec->compare_values;
	for (uint32_t i = 0; error == 0 && i < spec->case_count; i++) {
		c.of = &spec->cases[i];
		problem.case_index = (int)i;
		error = compile_case(&c, &recipe->cases[i]);
		recipe->case_count = i + 1;
	}
	json_plan_seal(&recipe->plan);
	if (error == 0) {
		*ret_recipe = recipe;
		return 0;
	}
	if (error == ERR_CONFIG && ret_problem)
		*ret_problem = problem;
	recipe_free(recipe);
	return error;
}

struct recipe *recipe_free(struct recipe *recipe)
{
	if (!recipe)
		return NULL;
	explicit_bzero(recipe->key, sizeof(recipe->key));
	explicit_bzero(&recipe->content_secret, sizeof(recipe->content_secret));
	arena_free(&recipe->arena);
	return mem_free(recipe);
}

uint32_t recipe_window_s(const struct recipe *recipe)
{
	return recipe->window_max_s;
}
