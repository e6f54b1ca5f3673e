/* judge: see judge.h. */
#include "deliver/judge.h"

#define STATUS_MIN 100u
#define STATUS_MAX 599u

/* ---- rules ---- */

static bool read_status(struct span *text, uint16_t *ret_status)
{
	uint32_t status = 0;
	size_t len = 0;
	while (len < text->len && len < 4 && text->ptr[len] >= '0' && text->ptr[len] <= '9')
		status = status * 10 + (uint32_t)(text->ptr[len++] - '0');
	if (len != 3 || status < STATUS_MIN || status > STATUS_MAX)
		return false;
	*text = span_skip(*text, len);
	*ret_status = (uint16_t)status;
	return true;
}

static bool skip_char(struct span *text, char c)
{
	if (text->len == 0 || text->ptr[0] != c)
		return false;
	*text = span_skip(*text, 1);
	return true;
}

/* ">400" and the like; `text` is behind the sign. */
static bool read_bound(struct span text, bool above, struct judge_rule *rule)
{
	bool with = skip_char(&text, '=');
	uint16_t status = 0;
	if (!read_status(&text, &status) || text.len > 0)
		return false;
	rule->low = above ? (uint16_t)(status + !with) : STATUS_MIN;
	rule->high = above ? STATUS_MAX : (uint16_t)(status - !with);
	return rule->low <= rule->high;
}

int judge_rule_add(struct judge_rules *rules, struct span text, struct error_text *ret_text)
{
	struct judge_rule rule = { 0 };
	if (rules->count == JUDGE_RULES_MAX)
		return error_fill(ret_text, ERR_TOO_LARGE, "at most %u rules for statuses",
		                  JUDGE_RULES_MAX);
	rule.never = skip_char(&text, '!');
	bool above = skip_char(&text, '>'), valid = false;
	if (above || skip_char(&text, '<')) {
		valid = read_bound(text, above, &rule);
	} else if (read_status(&text, &rule.low)) { /* a status or a range */
		rule.high = rule.low;
		valid = (!skip_char(&text, '-') || read_status(&text, &rule.high)) &&
		        text.len == 0 && rule.low <= rule.high;
	}
	if (!valid)
		return error_fill(ret_text, ERR_INVALID,
		                  "a status (429), a range (500-599) or a bound (>400, <=499) of "
		                  "100 to 599, with ! before it for no retry");
	rules->rules[rules->count++] = rule;
	return 0;
}

/* ---- statuses ---- */

static struct judgement judge_refused(const struct judge_rules *rules,
                                      const struct outlet_result *result)
{
	uint16_t status = result->status;
	bool busy = status == 429 || status == 503;
	bool fails = status == 401 || status == 407 || status == 408 ||
	             (status >= 500 && status <= STATUS_MAX);
	bool retry = fails || status == 0 || status == 409 || status == 410 || status == 425 ||
	             status == 429;
	bool named = false, never = false; /* a rule covers this status; one forbids to retry it */
	bool lists = false;                /* rules list what is retried: nothing else is */
	for (uint32_t i = 0; i < rules->count; i++) {
		const struct judge_rule *rule = &rules->rules[i];
		bool covers = status >= rule->low && status <= rule->high;
		named |= covers;
		never |= covers && rule->never;
		lists |= !rule->never;
	}
	if (status != 0 && (named || lists))
		retry = named && !never;
	struct judgement judgement = {
		.fate = retry ? JUDGE_RETRY : JUDGE_DEAD,
		.breaker = fails ? BREAKER_FAILURE : BREAKER_SUCCESS,
		.limiter = busy ? LIMITER_OVERLOADED : LIMITER_FINE,
		.disable = status == 410 && !named,
		.pause = busy,
	};
	if (judgement.disable)
		judgement.fate = JUDGE_RETRY;
	return judgement;
}

struct judgement judge(const struct judge_rules *rules, const struct outlet_result *result)
{
	struct judgement judgement = { .breaker = BREAKER_SUCCESS, .limiter = LIMITER_FINE };
	switch (result->answer) {
	case OUTLET_DONE: judgement.fate = JUDGE_DONE; return judgement;
	case OUTLET_REFUSED: judgement = judge_refused(rules, result); break;
	case OUTLET_UNKNOWN:
		return (struct judgement){ JUDGE_UNKNOWN, BREAKER_FAILURE, LIMITER_OVERLOADED,
			                   false, false };
	case OUTLET_NOT_SENT:
	case OUTLET_NOT_FOUND: /* of a probe, where the lane does not ask for judgement */
		judgement = (struct judgement){ JUDGE_RETRY, BREAKER_FAILURE, LIMITER_NOTHING,
			                        false, false };
		break;
	}
	if (result->permanent) {
		judgement.fate = JUDGE_DEAD;
		if (result->answer == OUTLET_NOT_SENT)
			judgement.breaker = BREAKER_NOTHING; /* it did not come to the sink */
	}
	return judgement;
}
