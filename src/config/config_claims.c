/* config_claims: claims, conditions and content. See config_reader.h. */
#include "config/config_reader.h"

#define SECTION "sources.*.claims[]"

static void read_condition(struct config_reader *reader, const struct yaml_node *member,
                           struct recipe_condition *ret_condition)
{
	struct span pattern = SPAN_EMPTY;
	struct span part;
	if (!config_read_part(reader, member->name, &part))
		return;
	if (member->kind != YAML_TEXT) {
		config_tell(reader, CONFIG_ERROR, member,
		            "found %s, expected a pattern, such as "
		            "\"order.*\" or \"!test\"",
		            config_found_kind(member));
		return;
	}
	/* Nothing: the part must be there, whatever it is. */
	if (member->text.len > 0 && !config_read_text(reader, member, &pattern))
		return;
	bool negate = pattern.len > 0 && pattern.ptr[0] == '!';
	*ret_condition = (struct recipe_condition){
		.part = part,
		.pattern = span_skip(pattern, negate),
		.negate = negate,
	};
}

void config_read_when(struct config_reader *reader, const struct yaml_node *map,
                      struct recipe_condition *ret_conditions, uint32_t *ret_count)
{
	uint32_t count = 0;
	if (!config_is_map(reader, map))
		return;
	if (map->count == 0 || map->count > RECIPE_SPEC_CONDITIONS_MAX) {
		config_tell(reader, CONFIG_ERROR, map, "found %u conditions, expected 1 to %d",
		            map->count, RECIPE_SPEC_CONDITIONS_MAX);
		return;
	}
	for (const struct yaml_node *member = map->first; member; member = member->next) {
		size_t at = config_enter(reader, member->name->text);
		if (!config_is_repeated(reader, map, member))
			read_condition(reader, member, &ret_conditions[count++]);
		config_leave(reader, at);
	}
	*ret_count = count;
}

static void read_except(struct config_reader *reader, const struct yaml_node *map,
                        struct recipe_claim_spec *claim)
{
	static const struct config_option except = { .kind = CONFIG_PARTS,
		                                     .max = RECIPE_SPEC_PARTS_MAX };
	for (const struct yaml_node *member = map->first; member; member = member->next) {
		bool parts = span_eq(member->name->text, SPAN("parts"));
		size_t at = config_enter(reader, member->name->text);
		if (config_is_repeated(reader, map, member))
			;
		else if (parts)
			(void)config_read_texts(reader, &except, member, claim->parts,
			                        &claim->part_count);
		else if (span_eq(member->name->text, SPAN("except")))
			(void)config_read_texts(reader, &except, member, claim->except,
			                        &claim->except_count);
		else
			config_tell(reader, CONFIG_ERROR, member->name,
			            "unknown option, expected except or parts");
		config_leave(reader, at);
	}
	if (map->count == 0)
		config_tell(reader, CONFIG_ERROR, map, "found an empty map, expected except");
}

/* body | [PART…] | {except: [PART…]} */
static void read_content(struct config_reader *reader, const struct yaml_node *node,
                         struct recipe_claim_spec *claim)
{
	static const struct config_option parts = { .kind = CONFIG_PARTS,
		                                    .max = RECIPE_SPEC_PARTS_MAX };
	if (node->kind == YAML_MAP)
		read_except(reader, node, claim);
	else if (node->kind == YAML_LIST || !span_eq(node->text, SPAN("body")))
		(void)config_read_texts(reader, &parts, node, claim->parts, &claim->part_count);
}

static void read_newest(struct config_reader *reader, const struct yaml_node *node)
{
	static const char *const needed[] = { "entity", "time" };
	if (node->kind != YAML_MAP)
		return; /* told when it was read */
	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		if (!yaml_map_find(node, span_str(needed[i])))
			config_tell(reader, CONFIG_ERROR, node, "%s is missing", needed[i]);
	const struct yaml_node *rank = yaml_map_find(node, SPAN("rank"));
	if (rank && rank->kind == YAML_MAP &&
	    (!yaml_map_find(rank, SPAN("part")) || !yaml_map_find(rank, SPAN("order"))))
		config_tell(reader, CONFIG_ERROR, rank, "a rank needs both part and order");
}

/* Exactly one of the three kinds; what it is and where. */
static const struct yaml_node *find_kind(struct config_reader *reader, const struct yaml_node *map,
                                         enum claim_kind *ret_kind)
{
	static const struct {
		const char *name;
		enum claim_kind kind;
	} kinds[] = {
		{ "once", CLAIM_ONCE },
		{ "content", CLAIM_CONTENT },
		{ "newest", CLAIM_NEWEST },
	};
	const struct yaml_node *found = NULL;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct yaml_node *node = yaml_map_find(map, span_str(kinds[i].name));
		if (node && found) {
			config_tell(reader, CONFIG_ERROR, node->name,
			            "found %s and %.*s in one claim, expected one of them; "
			            "begin another with \"- \"",
			            kinds[i].name, (int)found->name->text.len,
			            found->name->text.ptr);
			return NULL;
		}
		if (node) {
			found = node;
			*ret_kind = kinds[i].kind;
		}
	}
	if (!found && !config_has_unknown(SECTION, map))
		config_tell(reader, CONFIG_ERROR, map,
		            "found no claim, expected one of once, content, newest");
	return found;
}

static void read_claim(struct config_reader *reader, const struct yaml_node *map,
                       struct recipe_claim_spec *claim)
{
	if (!config_is_map(reader, map))
		return;
	config_read_section(reader, SECTION, map, claim);
	const struct yaml_node *node = find_kind(reader, map, &claim->kind);
	if (!node)
		return;
	size_t at = config_enter(reader, node->name->text);
	if (claim->kind == CLAIM_CONTENT)
		read_content(reader, node, claim);
	else if (claim->kind == CLAIM_NEWEST)
		read_newest(reader, node);
	config_leave(reader, at);
}

void config_read_claims(struct config_reader *reader, const struct yaml_node *list,
                        struct recipe_case_spec *spec)
{
	if (list->kind != YAML_LIST) {
		config_tell(reader, CONFIG_ERROR, list,
		            "found %s, expected a list of claims, such as - once: [id]",
		            config_found_kind(list));
		return;
	}
	if (list->count == 0 || list->count > CLAIMS_MAX) {
		config_tell(reader, CONFIG_ERROR, list, "found %u claims, expected 1 to %u",
		            list->count, CLAIMS_MAX);
		return;
	}
	uint32_t index = 0;
	for (const struct yaml_node *item = list->first; item; item = item->next) {
		size_t at = config_enter_index(reader, index++);
		read_claim(reader, item, &spec->claims[spec->claim_count++]);
		config_leave(reader, at);
	}
}
