/* feed: see feed.h. */
#include "sys/feed.h"

#include <errno.h>

#include "base/mem.h"

int feed_new(struct feed **ret_feed)
{
	struct feed *feed = mem_zalloc(1, sizeof(*feed));
	if (!feed)
		return -ENOMEM;
	pthread_mutex_init(&feed->lock, NULL);
	feed->waiting.cap = FEED_BYTES_MAX;
	*ret_feed = feed;
	return 0;
}

struct feed *feed_free(struct feed *feed)
{
	if (!feed)
		return NULL;
	pthread_mutex_destroy(&feed->lock);
	buf_free(&feed->waiting);
	return mem_free(feed);
}

void feed_say(struct feed *feed, struct span message)
{
	pthread_mutex_lock(&feed->lock);
	bool first = feed->waiting.len == 0;
	if (!feed->wake || buf_reserve(&feed->waiting, message.len) < 0)
		feed->lost += feed->wake != NULL;
	else
		buf_append_span(&feed->waiting, message);
	if (first && feed->waiting.len > 0 && feed->wake)
		feed->wake(feed->user);
	pthread_mutex_unlock(&feed->lock);
}

void feed_listen(struct feed *feed, void (*wake)(void *user), void *user)
{
	pthread_mutex_lock(&feed->lock);
	feed->wake = wake;
	feed->user = user;
	buf_clear(&feed->waiting);
	feed->lost = 0;
	atomic_store(&feed->heard, wake != NULL);
	pthread_mutex_unlock(&feed->lock);
}

uint64_t feed_take(struct feed *feed, struct buf *messages)
{
	CHECK(messages->len == 0);
	pthread_mutex_lock(&feed->lock);
	struct buf waiting = feed->waiting;
	feed->waiting = *messages;
	feed->waiting.cap = FEED_BYTES_MAX;
	uint64_t lost = feed->lost;
	feed->lost = 0;
	pthread_mutex_unlock(&feed->lock);
	*messages = waiting;
	return lost;
}
