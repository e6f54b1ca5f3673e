/*
 * template_internal: what compiled templates are made of.
 *
 * Room: gate, template*.c alone.
 */
#pragma once

#include "gate/template.h"

enum template_kind {
	TEMPLATE_FIXED = 0,
	TEMPLATE_TICKET,
	TEMPLATE_SOURCE,
	TEMPLATE_ATTEMPT,
	TEMPLATE_LETTER, /* `which` is its field */
	TEMPLATE_PATH,   /* `which` is its node */
	TEMPLATE_PAYLOAD,
};

struct template_piece {
	enum template_kind kind;
	uint8_t which;
	bool quoted;      /* JSON: it stands between quotes */
	struct span text; /* FIXED: the text; else as written, for messages */
};

struct template
{
	char *copy; /* of the text; pieces point into it */
	size_t len;
	enum template_form form;
	uint32_t first, count; /* pieces */
};

/* Where a byte of SQL stands. */
enum template_sql { SQL_CODE = 0, SQL_TEXT, SQL_NAME, SQL_LINE, SQL_BLOCK };

struct templates {
	uint32_t count;
	uint32_t piece_count;
	bool wants_paths;
	bool sealed;
	struct template list[TEMPLATES_MAX];
	struct template_piece pieces[TEMPLATE_PIECES_MAX];
	struct json_plan plan;
};
