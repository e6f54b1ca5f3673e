// bench_recipe_simdjson: the fastest there is, on demand; C++.
#include <cstring>
#include <simdjson.h>

#include "bench_recipe.h"

// On demand it needs room behind the text: a copy is part of its price.
bool bench_simdjson(const char *text, size_t len)
{
	static simdjson::ondemand::parser parser;
	static char bytes[65536 + simdjson::SIMDJSON_PADDING];
	std::string_view value;
	uint64_t time = 0;
	if (len > 65536)
		return false;
	std::memcpy(bytes, text, len);
	simdjson::ondemand::document doc;
	if (parser.iterate(bytes, len, sizeof(bytes)).get(doc))
		return false;
	simdjson::ondemand::object detail, body;
	return !doc["id"].get_string().get(value) && !doc["source"].get_string().get(value) &&
	       !doc["detail"].get_object().get(detail) &&
	       !detail["topicName"].get_string().get(value) &&
	       !detail["eventBody"].get_object().get(body) && !body["eventTime"].get_uint64().get(time) &&
	       !body["participantId"].get_string().get(value) &&
	       !body["sessionId"].get_string().get(value);
}
