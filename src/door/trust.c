/* trust: see trust.h. */
#include "door/trust.h"

#include "sys/clock.h"

static struct auth_request question_of(const struct http_request *request)
{
	return (struct auth_request){
		.head = &request->head,
		.body = request->body,
		.peer = request->peer,
		.now_s = clock_read(clock_system()).wall_ms / 1000,
	};
}

bool trust_request(const struct trust *trust, struct http_request *request)
{
	if (!trust->auth)
		return true;
	struct error_text why;
	struct auth_request question = question_of(request);
	enum auth_result result = auth_check(trust->auth, &question, &why);
	if (result == AUTH_OK)
		return true;
	meter_add(&trust->meters->unauthorized, 1);
	char address[IP_TEXT_MAX];
	ip_format(&request->peer->address, address);
	log_warn_of(&trust->meters->refusals, "a request was not let in",
	            log_span("source", trust->source), log_str("peer", address),
	            log_str("reason", auth_result_name(result)), log_str("text", why.text));
	uint16_t status = auth_status(result);
	http_respond_problem(request, status, auth_detail(result),
	                     status == 401   ? auth_challenge(trust->auth)
	                     : status == 503 ? SPAN("Retry-After: 1\r\n")
	                                     : SPAN_EMPTY);
	return false;
}

bool trust_head(const struct auth *auth, const struct http_request *request)
{
	if (!auth)
		return true;
	struct auth_request question = question_of(request);
	return auth_check_head(auth, &question) == AUTH_OK;
}
