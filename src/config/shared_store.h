/*
 * shared_store: the stores that several gateways share, by their kind: opened, checked
 * and prepared.
 *
 * Room:    config. Threads: the main one.
 * Failure: an error and a text, which holds nothing of the URL's secrets.
 */
#pragma once

#include "config/config.h"
#include "store/store.h"

/* `ret_key`: under which claims are digested; lives as long as the store. ERR_AWAY: nobody
 * answers there, try again; all else is for a person to mend. */
int shared_store_open(const struct config *config, struct store **ret_store,
                      const unsigned char **ret_key, struct error_text *ret_text) must_check;

/* Is the store's URL one, with parameters that there are? ERR_INVALID or ERR_CONFIG and a text;
 * nobody is asked. */
int shared_store_url_check(const struct config_store *store,
                           struct error_text *ret_text) must_check;

enum shared_level { SHARED_FINE = 0, SHARED_WARNING, SHARED_ERROR };

/* Who is told what was found. */
struct shared_listener {
	void (*tell)(void *user, enum shared_level level, const char *name, const char *text);
	void *user;
};

/* Is the server fit? Told finding by finding. An error: it cannot be asked. */
int shared_store_check(const struct config_store *store, const struct shared_listener *listener,
                       struct error_text *ret_text) must_check;
/* Makes what it needs, and brings that to this version. The text says what was done. */
int shared_store_init(const struct config_store *store, struct error_text *ret_text) must_check;
int shared_store_migrate(const struct config_store *store, struct error_text *ret_text) must_check;
