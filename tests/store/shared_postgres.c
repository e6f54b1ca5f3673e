/* shared_postgres: PostgreSQL for the suites of stores. See store_under_test.h. */
#include "shared_kinds.h"
#include "store/postgres/address.h"
#include "store/postgres/postgres_store.h"

/* Rows leave, tables stay: to make them anew takes longer than most tests. */
static const char wipe_sql[] =
	"DELETE FROM stile_claims; DELETE FROM stile_seen; DELETE FROM stile_events;"
	"DELETE FROM stile_tickets; DELETE FROM stile_notes; DELETE FROM stile_drops;"
	"DELETE FROM stile_cells; DELETE FROM stile_nodes; DELETE FROM stile_lines;"
	"SELECT setval('stile_ticket', 0)";

static int wipe(const char *url, struct error_text *ret_text)
{
	struct address address = { 0 };
	struct postgres_link link;
	int error = postgres_store_init(url, ret_text);

	if (!error)
		error = address_read(url, &address, ret_text);
	if (!error)
		error = address_connect(&address, &link, ret_text);
	if (!error) {
		struct postgres_answer answer = { 0 };
		error = postgres_command(&link, wipe_sql, &answer);
		if (error)
			*ret_text = answer.text;
		postgres_answer_free(&answer);
		postgres_link_close(&link);
	}
	address_free(&address);
	return error;
}

static int open_store(const struct shared_options *options, struct store **ret_store,
                      struct error_text *ret_text)
{
	static bool eager;

	eager = !eager; /* half of the stores decide in either way */
	return postgres_store_open(
		&(struct postgres_store_options){ .url = options->url,
	                                          .clock = options->clock,
	                                          .dense = true,
	                                          .eager = eager,
	                                          .retain_ms = 60000,
	                                          .dead_keep_ms = options->dead_keep_ms },
		ret_store, ret_text);
}

const struct shared_kind shared_postgres = {
	.schemes = { "postgres://", "postgresql://" },
	.wipe = wipe,
	.open = open_store,
};
