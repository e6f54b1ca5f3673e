/* table_pages: memory that is made ready or joined beside its owner. */
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "support/test.h"

#include "base/mem.h"
#include "store/local/index/table_pages.h"

#define PAGES 6u /* huge ones */
#define BYTES ((size_t)PAGES * MEM_HUGE)

struct place {
	char *memory;
	struct table_pages pages;
};

static void place_make(struct place *place)
{
	place->memory = mem_reserve(BYTES);
	assert_non_null(place->memory);
	assert_true(mem_commit(place->memory, BYTES));
	table_pages_init(&place->pages, place->memory);
}

static void place_free(struct place *place)
{
	table_pages_end(&place->pages);
	mem_unmap(place->memory, BYTES);
}

static char *page_at(const struct place *place, uint32_t page)
{
	return place->memory + (size_t)page * MEM_HUGE;
}

/* A word in every small page, so that all of them are touched. */
static void fill(const struct place *place, uint32_t first, uint32_t end)
{
	for (size_t at = first * (size_t)MEM_HUGE; at < end * (size_t)MEM_HUGE; at += MEM_PAGE)
		memcpy(place->memory + at, &at, sizeof(at));
}

static void check(const struct place *place, uint32_t first, uint32_t end, bool filled)
{
	for (size_t at = first * (size_t)MEM_HUGE; at < end * (size_t)MEM_HUGE; at += MEM_PAGE) {
		size_t found, wanted = filled ? at : 0;
		memcpy(&found, place->memory + at, sizeof(found));
		assert_int_equal(found, wanted);
	}
}

static char *behind(struct place *place)
{
	pthread_mutex_lock(&place->pages.mutex);
	char *at = place->pages.behind;
	pthread_mutex_unlock(&place->pages.mutex);
	return at;
}

/* Until all below this page has been joined, and the wishes are met. */
static void await(struct place *place, const char *end)
{
	for (bool done = false; !done; sched_yield()) {
		pthread_mutex_lock(&place->pages.mutex);
		done = place->pages.behind >= end && place->pages.size == 0;
		pthread_mutex_unlock(&place->pages.mutex);
	}
}

static void test_what_was_touched_before_a_wish_is_joined_and_stays_as_it_is(void **state)
{
	struct place place;

	(void)state;
	place_make(&place);
	fill(&place, 0, 3);
	table_pages_want(&place.pages, page_at(&place, 3), 2 * (size_t)MEM_HUGE);
	fill(&place, 0, 3); /* as the owner goes on meanwhile */
	await(&place, page_at(&place, 5));
	check(&place, 0, 3, true);
	check(&place, 3, PAGES, false);
	place_free(&place);
}

static void test_what_was_given_back_is_joined_again_when_it_is_wanted_again(void **state)
{
	struct place place;

	(void)state;
	place_make(&place);
	fill(&place, 0, 4);
	table_pages_want(&place.pages, page_at(&place, 4), MEM_HUGE);
	await(&place, page_at(&place, 5));
	mem_decommit(page_at(&place, 2), 3 * (size_t)MEM_HUGE);
	table_pages_want(&place.pages, page_at(&place, 2), MEM_HUGE);
	assert_true(behind(&place) <= page_at(&place, 3));
	await(&place, page_at(&place, 3));
	check(&place, 0, 2, true);
	check(&place, 2, PAGES, false);
	place_free(&place);
}

static bool is_there(const struct place *place, uint32_t page)
{
	unsigned char resident[MEM_HUGE / MEM_PAGE];
	bool any = false;

	assert_int_equal(mincore(page_at(place, page), MEM_HUGE, resident), 0);
	for (size_t i = 0; i < sizeof(resident); i++)
		any = any || (resident[i] & 1);
	return any;
}

/* All may be joined; then most of it goes back. */
static void test_what_is_given_back_is_not_joined(void **state)
{
	(void)state;
	struct place place;
	place_make(&place);
	fill(&place, 0, PAGES - 1);
	table_pages_want(&place.pages, page_at(&place, PAGES - 1), 0);
	table_pages_cut(&place.pages, page_at(&place, 1));
	mem_decommit(page_at(&place, 1), BYTES - MEM_HUGE);
	await(&place, page_at(&place, 1));
	assert_ptr_equal(behind(&place), page_at(&place, 1));
	check(&place, 0, 1, true);
	/* The first of them may have been in hand. */
	for (uint32_t page = 2; page < PAGES; page++)
		assert_false(is_there(&place, page));
	place_free(&place);
}

static void test_it_ends_before_any_wish_and_in_the_middle_of_one(void **state)
{
	struct place place;

	(void)state;
	place_make(&place);
	place_free(&place);
	place_make(&place);
	fill(&place, 0, 5);
	table_pages_want(&place.pages, page_at(&place, 5), MEM_HUGE);
	table_pages_end(&place.pages);
	check(&place, 0, 5, true);
	place_free(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_touched_before_a_wish_is_joined_and_stays_as_it_is),
		cmocka_unit_test(test_what_was_given_back_is_joined_again_when_it_is_wanted_again),
		cmocka_unit_test(test_what_is_given_back_is_not_joined),
		cmocka_unit_test(test_it_ends_before_any_wish_and_in_the_middle_of_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
