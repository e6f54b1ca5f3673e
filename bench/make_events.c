/*
 * make_events: a history of Genesys events for bench/run, as NDJSON.
 *
 * Usage: make_events EVENTS DUPLICATES_PER_CENT
 *
 * About 1 KB each. A duplicate is a copy of one of the last 100,000 originals,
 * since retries come minutes to hours later. Everything follows from the numbers
 * given: the same call writes the same bytes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"

#define NEAR 100000u
#define STEP_MS 20u /* between two events */
#define FIRST_MS UINT64_C(1767323045000)

static uint64_t mix(uint64_t z)
{
	z += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

struct uuid {
	char text[37];
};

static struct uuid make_uuid(uint64_t number, uint64_t which)
{
	struct uuid uuid;
	uint64_t a = mix(number * 16 + which);
	uint64_t b = mix(a);
	snprintf(uuid.text, sizeof(uuid.text), "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(a >> 32),
	         (unsigned)(a >> 16 & 0xFFFF), (unsigned)(a & 0xFFF), (unsigned)(b >> 48),
	         (unsigned long long)(b & 0xFFFFFFFFFFFF));
	return uuid;
}

static void print_event(uint64_t number)
{
	static const char *const media[] = { "CHAT", "VOICE", "CALLBACK", "MESSAGE", "EMAIL" };
	static const char *const steps[] = { "customer.end", "agent.start", "acd.start", "wrapup" };
	static const char *const providers[] = { "PureCloud Webchat v2", "Edge", "Rösti Öl AG",
		                                 "" };
	uint64_t ms = FIRST_MS + number * STEP_MS;
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;
	char at[32];
	gmtime_r(&seconds, &tm);
	strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%S", &tm);
	uint64_t dice = mix(number);
	const char *step = steps[dice % ARRAY_LEN(steps)];
	/* A conversation has a few events of its own. */
	struct uuid conversation = make_uuid(number / 5, 2);
	struct uuid contact = make_uuid(number / 5, 5);
	printf("{\"version\":\"0\",\"id\":\"%s\","
	       "\"detail-type\":\"v2.detail.events.conversation.{id}.%s\","
	       "\"source\":\"aws.partner/genesys.com/cloud/%s/prod-bus\","
	       "\"account\":\"123456789012\",\"time\":\"%sZ\",\"region\":\"us-east-1\","
	       "\"resources\":[],\"detail\":{\"topicName\":"
	       "\"v2.detail.events.conversation.%s.%s\",\"version\":\"2\",\"eventBody\":{"
	       "\"eventTime\":%llu,\"conversationId\":\"%s\",\"participantId\":\"%s\","
	       "\"sessionId\":\"%s\",\"mediaType\":\"%s\",\"provider\":\"%s\","
	       "\"direction\":\"INBOUND\",\"externalContactId\":\"%s\","
	       "\"externalOrganizationId\":\"%s\",\"conversationExternalContactIds\":[\"%s\"],"
	       "\"interactingDurationMs\":%u,\"addressTo\":null,\"active\":true},"
	       "\"metadata\":{\"CorrelationId\":\"%s\"},\"timestamp\":\"%s.%03uZ\"}}\n",
	       make_uuid(number, 0).text, step, make_uuid(0, 1).text, at, conversation.text, step,
	       (unsigned long long)ms, conversation.text, make_uuid(number, 3).text,
	       make_uuid(number, 4).text, media[dice / 8 % ARRAY_LEN(media)],
	       providers[dice / 64 % ARRAY_LEN(providers)], contact.text, make_uuid(0, 7).text,
	       contact.text, (unsigned)(dice >> 32) % 1000000, make_uuid(number, 6).text, at,
	       (unsigned)(ms % 1000));
}

int main(int argc, char **argv)
{
	uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	uint64_t percent = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	uint64_t originals = 0;
	/* The page cache keeps a file in pieces as large as it was written in. */
	static char pieces[1u << 20];
	setvbuf(stdout, pieces, _IOFBF, sizeof(pieces));
	for (uint64_t i = 0; i < events; i++) {
		uint64_t dice = mix(~i);
		if (originals > 0 && dice % 100 < percent)
			print_event(originals - 1 -
			            dice / 100 % (originals < NEAR ? originals : NEAR));
		else
			print_event(originals++);
	}
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
