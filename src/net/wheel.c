/* Deadlines. See wheel.h. */
#include "net/wheel.h"

#include <stddef.h>

#include "base/check.h"

void wheel_init(struct wheel *wheel, uint64_t tick_ms, uint64_t now_ms)
{
	*wheel = (struct wheel){ .tick_ms = tick_ms, .tick = now_ms / tick_ms };
}

void wheel_remove(struct wheel_entry *entry)
{
	if (!entry->prev)
		return;
	*entry->prev = entry->next;
	if (entry->next)
		entry->next->prev = entry->prev;
	entry->prev = NULL;
	entry->next = NULL;
}

static void link_at(struct wheel *wheel, struct wheel_entry *entry, uint64_t tick)
{
	struct wheel_entry **slot = &wheel->slots[tick % WHEEL_SLOTS];
	entry->tick = tick;
	entry->next = *slot;
	entry->prev = slot;
	if (*slot)
		(*slot)->prev = &entry->next;
	*slot = entry;
}

/* Rounded up, so that a slot is never run before the deadlines in it; beyond
 * the horizon an entry waits in the last slot and is moved on from there. */
static uint64_t tick_for(const struct wheel *wheel, uint64_t deadline_ms)
{
	uint64_t tick = deadline_ms / wheel->tick_ms + 1;
	if (tick <= wheel->tick)
		return wheel->tick + 1;
	return tick < wheel->tick + WHEEL_SLOTS ? tick : wheel->tick + WHEEL_SLOTS - 1;
}

void wheel_set(struct wheel *wheel, struct wheel_entry *entry, uint64_t deadline_ms)
{
	entry->deadline_ms = deadline_ms;
	if (entry->prev && entry->tick * wheel->tick_ms <= deadline_ms)
		return;
	if (deadline_ms == WHEEL_NEVER)
		return;
	uint64_t tick = tick_for(wheel, deadline_ms);
	if (entry->prev && entry->tick <= tick)
		return;
	wheel_remove(entry);
	link_at(wheel, entry, tick);
}

static void run_slot(struct wheel *wheel, uint64_t now_ms,
                     void (*expired)(struct wheel_entry *entry))
{
	struct wheel_entry *entry, **slot = &wheel->slots[wheel->tick % WHEEL_SLOTS];
	while ((entry = *slot)) {
		wheel_remove(entry);
		if (entry->deadline_ms <= now_ms)
			expired(entry);
		else if (entry->deadline_ms != WHEEL_NEVER)
			link_at(wheel, entry, tick_for(wheel, entry->deadline_ms));
	}
}

void wheel_run(struct wheel *wheel, uint64_t now_ms, void (*expired)(struct wheel_entry *entry))
{
	uint64_t last = now_ms / wheel->tick_ms;
	if (last > wheel->tick + WHEEL_SLOTS) /* after a suspend once round is enough */
		wheel->tick = last - WHEEL_SLOTS;
	while (wheel->tick < last) {
		wheel->tick++;
		run_slot(wheel, now_ms, expired);
	}
}
