/* feed: see feed.h. */
#include "sys/feed.h"

#include <errno.h>
#include <pthread.h>

#include "base/mem.h"

struct feed_inside {
	pthread_mutex_t lock;
	struct buf waiting;
	uint64_t lost;
	void (*wake)(void *user);
	void *user;
};

int feed_new(struct feed **ret_feed)
{
	struct feed *feed = mem_zalloc(1, sizeof(*feed));
	struct feed_inside *inside = mem_zalloc(1, sizeof(*inside));
	if (!feed || !inside) {
		mem_free(feed);
		mem_free(inside);
		return -ENOMEM;
	}
	pthread_mutex_init(&inside->lock, NULL);
	inside->waiting.cap = FEED_BYTES_MAX;
	feed->inside = inside;
	*ret_feed = feed;
	return 0;
}

struct feed *feed_free(struct feed *feed)
{
	if (!feed)
		return NULL;
	pthread_mutex_destroy(&feed->inside->lock);
	buf_free(&feed->inside->waiting);
	mem_free(feed->inside);
	return mem_free(feed);
}

void feed_say(struct feed *feed, struct span message)
{
	struct feed_inside *inside = feed->inside;
	pthread_mutex_lock(&inside->lock);
	bool first = inside->waiting.len == 0;
	if (!inside->wake || buf_reserve(&inside->waiting, message.len) < 0)
		inside->lost += inside->wake != NULL;
	else
		buf_append_span(&inside->waiting, message);
	if (first && inside->waiting.len > 0 && inside->wake)
		inside->wake(inside->user);
	pthread_mutex_unlock(&inside->lock);
}

void feed_listen(struct feed *feed, void (*wake)(void *user), void *user)
{
	struct feed_inside *inside = feed->inside;
	pthread_mutex_lock(&inside->lock);
	inside->wake = wake;
	inside->user = user;
	buf_clear(&inside->waiting);
	inside->lost = 0;
	atomic_store(&feed->heard, wake != NULL);
	pthread_mutex_unlock(&inside->lock);
}

uint64_t feed_take(struct feed *feed, struct buf *messages)
{
	struct feed_inside *inside = feed->inside;
	CHECK(messages->len == 0);
	pthread_mutex_lock(&inside->lock);
	struct buf waiting = inside->waiting;
	inside->waiting = *messages;
	inside->waiting.cap = FEED_BYTES_MAX;
	uint64_t lost = inside->lost;
	inside->lost = 0;
	pthread_mutex_unlock(&inside->lock);
	*messages = waiting;
	return lost;
}
