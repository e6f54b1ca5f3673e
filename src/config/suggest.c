/* suggest: see suggest.h. */
#include "config/suggest.h"

#define WORD_MAX 32u
#define NEAR_MAX 2u /* further away is no misspelling */

/* - and _ are the same to whoever has to remember which it was. */
static bool is_same(char a, char b)
{
	a = a == '_' ? '-' : span_lower(a);
	b = b == '_' ? '-' : span_lower(b);
	return a == b;
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;
	return ab < c ? ab : c;
}

/* Edit distance, swapped neighbours counting two; long words are never near. */
static unsigned distance(struct span a, struct span b)
{
	unsigned row[WORD_MAX + 1];
	if (a.len > WORD_MAX || b.len > WORD_MAX)
		return WORD_MAX;
	for (size_t j = 0; j <= b.len; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= a.len; i++) {
		unsigned diagonal = row[0];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b.len; j++) {
			unsigned changed = diagonal + !is_same(a.ptr[i - 1], b.ptr[j - 1]);
			diagonal = row[j];
			row[j] = least(changed, row[j] + 1, row[j - 1] + 1);
		}
	}
	return row[b.len];
}

/* Of a short word two letters are most of it. */
static unsigned limit_of(struct span wrote)
{
	return wrote.len < 4 ? 1 : NEAR_MAX;
}

struct suggest suggest_begin(struct span wrote)
{
	return (struct suggest){ .wrote = wrote, .distance = limit_of(wrote) + 1 };
}

void suggest_offer(struct suggest *suggest, struct span word)
{
	unsigned d = distance(suggest->wrote, word);
	if (d < suggest->distance && d < word.len) {
		suggest->distance = d;
		suggest->best = word;
	}
}

void suggest_offer_choices(struct suggest *suggest, const char *choices)
{
	for (const char *word = choices; word && *word;) {
		size_t len = strcspn(word, "|");
		suggest_offer(suggest, span_of(word, len));
		word += len + (word[len] == '|');
	}
}
