/* table_pages: see table_pages.h. */
#include "store/local/index/table_pages.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "sys/file.h"

#define HUGE_FILE "/sys/kernel/mm/transparent_hugepage/enabled"
#define HUGE_FILE_MAX 4096u

/* Between two pages that are joined. */
#define PAUSE_NS 10000000u

struct page {
	char *start;
	bool touched; /* it is to be joined */
};

static bool has_work(const struct table_pages *pages)
{
	return pages->size > 0 || pages->behind < pages->start;
}

/* The next huge page: what is needed soon goes before what is only to be joined. False:
 * the end. */
static bool take_page(struct table_pages *pages, struct page *ret_page)
{
	pthread_mutex_lock(&pages->mutex);
	while (!pages->stop && !has_work(pages))
		pthread_cond_wait(&pages->work, &pages->mutex);
	bool goes_on = !pages->stop;
	if (goes_on && pages->size > 0) {
		*ret_page = (struct page){ .start = pages->start };
		pages->start += MEM_HUGE;
		pages->size -= pages->size < MEM_HUGE ? pages->size : MEM_HUGE;
	} else if (goes_on) {
		*ret_page = (struct page){ .start = pages->behind, .touched = true };
		pages->behind += MEM_HUGE;
	}
	pthread_mutex_unlock(&pages->mutex);
	return goes_on;
}

/* Is the system told to have huge pages? */
static bool may_join(void)
{
	char *text;
	size_t len;

	if (file_read_whole(file_system_real(), HUGE_FILE, HUGE_FILE_MAX, &text, &len) != 0)
		return false;
	bool may = len > 0 && !strstr(text, "[never]");
	mem_free(text);
	return may;
}

static void run(void *user)
{
	bool joins = may_join();
	struct page page;

	while (take_page(user, &page)) {
		if (page.touched && !joins)
			continue;
		mem_prefer_huge(page.start, MEM_HUGE);
		if (page.touched) {
			mem_join_huge(page.start);
			nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
		} else {
			mem_populate(page.start, MEM_HUGE);
		}
	}
}

void table_pages_init(struct table_pages *pages, char *first)
{
	CHECK((uintptr_t)first % MEM_HUGE == 0);
	*pages = (struct table_pages){ .behind = first };
}

static void start(struct table_pages *pages)
{
	pages->started = true;
	pthread_mutex_init(&pages->mutex, NULL);
	pthread_cond_init(&pages->work, NULL);
	int error = thread_start(&pages->thread, &(struct thread_options){ .name = "stile-pages",
	                                                                   .cpu = THREAD_ANY_CPU,
	                                                                   .run = run,
	                                                                   .user = pages });
	CHECK(error <= 0 && pages->thread.running == (error == 0));
}

void table_pages_want(struct table_pages *pages, char *first, size_t size)
{
	CHECK(size % MEM_HUGE == 0);
	if (!pages->started)
		start(pages);
	if (!pages->thread.running)
		return;
	pthread_mutex_lock(&pages->mutex);
	pages->start = first;
	pages->size = size;
	/* What is there was given back, and comes anew. */
	if (pages->behind > first)
		pages->behind = first;
	pthread_cond_signal(&pages->work);
	pthread_mutex_unlock(&pages->mutex);
}

void table_pages_cut(struct table_pages *pages, char *end)
{
	if (!pages->thread.running)
		return;
	pthread_mutex_lock(&pages->mutex);
	if (pages->start + pages->size > end)
		pages->size = pages->start < end ? (size_t)(end - pages->start) : 0;
	if (pages->start > end)
		pages->start = end;
	if (pages->behind > end)
		pages->behind = end;
	pthread_mutex_unlock(&pages->mutex);
}

void table_pages_end(struct table_pages *pages)
{
	if (!pages->started)
		return;
	pthread_mutex_lock(&pages->mutex);
	pages->stop = true;
	pthread_cond_signal(&pages->work);
	pthread_mutex_unlock(&pages->mutex);
	thread_join(&pages->thread);
	pthread_cond_destroy(&pages->work);
	pthread_mutex_destroy(&pages->mutex);
	*pages = (struct table_pages){ 0 };
}
