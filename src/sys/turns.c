/* turns: see turns.h. */
#include "sys/turns.h"

void turns_take(struct turns *turns)
{
	pthread_mutex_lock(&turns->mutex);
	uint64_t mine = ++turns->last;
	while (turns->now != mine)
		pthread_cond_wait(&turns->changed, &turns->mutex);
	pthread_mutex_unlock(&turns->mutex);
}

void turns_give(struct turns *turns)
{
	pthread_mutex_lock(&turns->mutex);
	turns->now++;
	pthread_cond_broadcast(&turns->changed);
	pthread_mutex_unlock(&turns->mutex);
}
