/* http_names: addresses for a lane's name, and who waits for them. See http_internal.h. */
#include <netdb.h>
#include <stdio.h>

#include "sink/http/http_internal.h"

static void give_up(struct loop_timer *timer)
{
	struct http_lane *lane = container_of(timer, struct http_lane, late);
	char why[OUTLET_TEXT_MAX];
	snprintf(why, sizeof(why), "no address for %.180s within %u ms", lane->target->host,
	         lane->outlet->plan->options.connect_ms);
	http_lane_fail_waiting(lane, why);
}

/* The line for CURLOPT_RESOLVE. libcurl's URL may have another name than was asked
 * for: that which TLS verifies. */
static int write_pin(struct http_lane *lane, const struct name_addresses *addresses)
{
	struct buf *line = &lane->pin_line;
	buf_clear(line);
	buf_printf(line, "%.255s:%u:", lane->target->name, lane->target->port);
	for (uint32_t i = 0; i < addresses->count; i++) {
		char text[IP_TEXT_MAX];
		ip_format(&addresses->list[i], text);
		buf_printf(line, "%s[%s]", i ? "," : "", text);
	}
	buf_append_char(line, '\0');
	if (line->failed)
		return -ENOMEM;
	lane->pin_node = (struct http_line){ .text = line->ptr };
	lane->pin = true;
	return 0;
}

int http_lane_init(struct http_lane *lane, struct http_outlet *outlet,
                   const struct http_target *target)
{
	struct name_addresses addresses = { .count = 1 };
	lane->target = target;
	lane->outlet = outlet;
	lane->waiting_end = &lane->waiting;
	lane->late.due = give_up;
	if (!target->literal)
		return 0;
	lane->known = true;
	if (ip_parse(span_str(target->host), &addresses.list[0]))
		return ERR_CONFIG;
	bool same = span_starts(span_skip(span_str(target->name), target->name[0] == '['),
	                        span_str(target->host));
	return same ? 0 : write_pin(lane, &addresses);
}

void http_lane_close(struct http_lane *lane)
{
	CHECK(!lane->waiting);
	loop_timer_clear(lane->outlet->loop, &lane->late);
	lane->lookup = name_lookup_free(lane->lookup);
	buf_free(&lane->pin_line);
}

static struct http_transfer *take_waiting(struct http_lane *lane)
{
	struct http_transfer *list = lane->waiting;
	lane->waiting = NULL;
	lane->waiting_end = &lane->waiting;
	loop_timer_clear(lane->outlet->loop, &lane->late);
	return list;
}

void http_lane_fail_waiting(struct http_lane *lane, const char *why)
{
	struct http_transfer *list = take_waiting(lane);
	while (list) {
		struct http_transfer *transfer = list;
		list = list->next;
		http_outlet_fail(transfer, false, why);
	}
}

static bool is_current(const struct http_lane *lane)
{
	if (!lane->known || lane->target->literal)
		return lane->known;
	return loop_now_ms(lane->outlet->loop) - lane->known_ms <
	       lane->outlet->plan->options.name_ms;
}

void http_lane_start(struct http_lane *lane, struct http_transfer *transfer)
{
	struct http_outlet *outlet = lane->outlet;
	struct name_lookup_question question = { .host = lane->target->host,
		                                 .loop = outlet->loop,
		                                 .ask = outlet->lookup };
	if (is_current(lane)) {
		http_outlet_start(transfer);
		return;
	}
	if (!lane->lookup && name_lookup_start(&question, &lane->lookup)) {
		http_outlet_fail(transfer, false, "no thread to look up its address");
		return;
	}
	if (!lane->waiting &&
	    loop_timer_set(outlet->loop, &lane->late, outlet->plan->options.connect_ms)) {
		http_outlet_fail(transfer, false, "no memory to send it");
		return;
	}
	transfer->next = NULL;
	*lane->waiting_end = transfer;
	lane->waiting_end = &transfer->next;
}

/* All addresses are judged, not only the one that would be used. */
static bool are_allowed(struct http_lane *lane, const struct name_addresses *addresses,
                        char why[static OUTLET_TEXT_MAX])
{
	for (uint32_t i = 0; i < addresses->count; i++) {
		const char *special = http_plan_refusal(lane->outlet->plan, &addresses->list[i]);
		if (!special)
			continue;
		char text[IP_TEXT_MAX];
		ip_format(&addresses->list[i], text);
		snprintf(why, OUTLET_TEXT_MAX, "%.100s is at %s, %s address: not allowed",
		         lane->target->host, text, special);
		return false;
	}
	return true;
}

/* Names that cannot be asked for now keep the addresses that they had. */
static bool settle(struct http_lane *lane, int error, const struct name_addresses *addresses,
                   char why[static OUTLET_TEXT_MAX])
{
	bool later = error == EAI_AGAIN || error == EAI_SYSTEM || error == EAI_MEMORY;
	lane->known_ms = loop_now_ms(lane->outlet->loop);
	if (error && later && lane->known)
		return true;
	lane->known = false;
	if (error) {
		snprintf(why, OUTLET_TEXT_MAX, "no address for %.100s: %.100s", lane->target->host,
		         gai_strerror(error));
		return false;
	}
	if (!are_allowed(lane, addresses, why))
		return false;
	if (write_pin(lane, addresses)) {
		snprintf(why, OUTLET_TEXT_MAX, "no memory to send it");
		return false;
	}
	lane->known = true;
	return true;
}

/* Perhaps it has moved. */
void http_lane_doubt(struct http_lane *lane)
{
	lane->known_ms = loop_now_ms(lane->outlet->loop) - lane->outlet->plan->options.name_ms;
}

void http_lane_poll(struct http_lane *lane)
{
	struct name_addresses addresses;
	char why[OUTLET_TEXT_MAX] = "";
	int error;
	if (!lane->lookup || !name_lookup_ready(lane->lookup, &error, &addresses))
		return;
	lane->lookup = name_lookup_free(lane->lookup);
	if (!settle(lane, error, &addresses, why)) {
		http_lane_fail_waiting(lane, why);
		return;
	}
	struct http_transfer *list = take_waiting(lane);
	while (list) {
		struct http_transfer *transfer = list;
		list = list->next;
		http_outlet_start(transfer);
	}
	http_client_run(&lane->outlet->client);
}
