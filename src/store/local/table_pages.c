/* table_pages: see table_pages.h. */
#include "store/local/table_pages.h"

#include "base/mem.h"

/* The next huge page of what is wanted, or NULL: the end. */
static char *take_page(struct table_pages *pages)
{
	pthread_mutex_lock(&pages->mutex);
	while (!pages->stop && pages->size == 0)
		pthread_cond_wait(&pages->work, &pages->mutex);
	char *page = pages->stop ? NULL : pages->start;
	if (page) {
		pages->start += MEM_HUGE;
		pages->size -= pages->size < MEM_HUGE ? pages->size : MEM_HUGE;
	}
	pthread_mutex_unlock(&pages->mutex);
	return page;
}

static void run(void *user)
{
	char *page;

	while ((page = take_page(user))) {
		mem_prefer_huge(page, MEM_HUGE);
		mem_populate(page, MEM_HUGE);
	}
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
	pthread_cond_signal(&pages->work);
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
