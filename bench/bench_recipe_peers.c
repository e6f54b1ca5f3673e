/* bench_recipe_peers: what Debian has of C libraries for JSON. */
#include "bench_recipe.h"

#ifdef BENCH_JSON_C
#include <json.h>

static bool parse_json_c(const char *text, size_t len)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *root = json_tokener_parse_ex(tokener, text, (int)len);
	struct json_object *detail = NULL;
	struct json_object *body = NULL;
	struct json_object *value[6] = { NULL };
	bool found = json_object_object_get_ex(root, "id", &value[0]) &&
	             json_object_object_get_ex(root, "source", &value[1]) &&
	             json_object_object_get_ex(root, "detail", &detail) &&
	             json_object_object_get_ex(detail, "topicName", &value[2]) &&
	             json_object_object_get_ex(detail, "eventBody", &body) &&
	             json_object_object_get_ex(body, "participantId", &value[3]) &&
	             json_object_object_get_ex(body, "sessionId", &value[4]) &&
	             json_object_object_get_ex(body, "eventTime", &value[5]);
	json_object_put(root);
	json_tokener_free(tokener);
	return found;
}
#endif

#ifdef BENCH_CJSON
#include <cjson/cJSON.h>

static bool parse_cjson(const char *text, size_t len)
{
	cJSON *root = cJSON_ParseWithLength(text, len);
	const cJSON *detail = cJSON_GetObjectItemCaseSensitive(root, "detail");
	const cJSON *body = cJSON_GetObjectItemCaseSensitive(detail, "eventBody");
	bool found = cJSON_GetObjectItemCaseSensitive(root, "id") &&
	             cJSON_GetObjectItemCaseSensitive(root, "source") &&
	             cJSON_GetObjectItemCaseSensitive(detail, "topicName") &&
	             cJSON_GetObjectItemCaseSensitive(body, "participantId") &&
	             cJSON_GetObjectItemCaseSensitive(body, "sessionId") &&
	             cJSON_GetObjectItemCaseSensitive(body, "eventTime");
	cJSON_Delete(root);
	return found;
}
#endif

/*
 * jansson and json-c have functions of the same names: the library is loaded at
 * run time, and its own names are found there alone.
 */
#include <dlfcn.h>

static struct {
	void *(*loadb)(const char *text, size_t len, size_t flags, void *error);
	void *(*object_get)(const void *object, const char *key);
	void (*delete)(void *value);
} jansson;

static bool parse_jansson(const char *text, size_t len)
{
	char error[1024]; /* more than a json_error_t */
	void *root = jansson.loadb(text, len, 0, error);
	if (!root)
		return false;
	void *detail = jansson.object_get(root, "detail");
	void *body = jansson.object_get(detail, "eventBody");
	bool found = jansson.object_get(root, "id") && jansson.object_get(root, "source") &&
	             jansson.object_get(detail, "topicName") &&
	             jansson.object_get(body, "participantId") &&
	             jansson.object_get(body, "sessionId") && jansson.object_get(body, "eventTime");
	jansson.delete(root); /* nobody else has a reference */
	return found;
}

static bool load_jansson(void)
{
	void *library = dlopen("libjansson.so.4", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return false;
	*(void **)&jansson.loadb = dlsym(library, "json_loadb");
	*(void **)&jansson.object_get = dlsym(library, "json_object_get");
	*(void **)&jansson.delete = dlsym(library, "json_delete");
	return jansson.loadb && jansson.object_get && jansson.delete;
}

size_t bench_peers(struct bench_peer *ret_peers)
{
	size_t count = 0;
#ifdef BENCH_JSON_C
	ret_peers[count++] = (struct bench_peer){ "json_c", parse_json_c };
#endif
#ifdef BENCH_CJSON
	ret_peers[count++] = (struct bench_peer){ "cjson", parse_cjson };
#endif
	if (load_jansson())
		ret_peers[count++] = (struct bench_peer){ "jansson", parse_jansson };
#ifdef BENCH_SIMDJSON
	ret_peers[count++] = (struct bench_peer){ "simdjson", bench_simdjson };
#endif
	return count;
}
