/*
 * presets: see presets.h.
 *
 * One table of cases, in the order in which `auto` tries them: what is known by
 * its headers first, then batches and wrappers, then envelopes from the special
 * to the general. Every other preset is a run of that table.
 *
 * Business claims are skipped where their parts are missing, never rejected: a
 * sender such as EventBridge does not retry a 400, so the event would be lost because a second
 * key is missing.
 *
 * The content of an event excludes what changes between deliveries: envelopes of re-published events, receipt handles, Stripe's count of
 * pending webhooks.
 */
#include "gate/recipe/presets.h"

#include "base/check.h"

/* For static initialisers, where SPAN() is not constant enough. */
#define TEXT(literal)                        \
	{                                    \
		literal, sizeof(literal) - 1 \
	}
#define THERE(of)                \
	{                        \
		.part = TEXT(of) \
	}
#define ABSENT(of)                               \
	{                                        \
		.part = TEXT(of), .negate = true \
	}
#define IS(of, text)                                    \
	{                                               \
		.part = TEXT(of), .pattern = TEXT(text) \
	}
#define IS_NOT(of, text)                                                \
	{                                                               \
		.part = TEXT(of), .pattern = TEXT(text), .negate = true \
	}

/* Lists with their counts. */
#define COUNT(type, ...) (sizeof((type[]){ __VA_ARGS__ }) / sizeof(type))
#define CONDITIONS(...)                                                 \
	.condition_count = COUNT(struct recipe_condition, __VA_ARGS__), \
	.conditions = { __VA_ARGS__ }
#define CLAIMS(...) \
	.claim_count = COUNT(struct recipe_claim_spec, __VA_ARGS__), .claims = { __VA_ARGS__ }
#define PARTS(...) .part_count = COUNT(struct span, __VA_ARGS__), .parts = { __VA_ARGS__ }

#define ONE_PART(rule, a)                          \
	{                                          \
		.name = TEXT(rule), PARTS(TEXT(a)) \
	}
#define TWO_PARTS(rule, a, b)                               \
	{                                                   \
		.name = TEXT(rule), PARTS(TEXT(a), TEXT(b)) \
	}

/* A second claim: left out when a part is missing. */
#define BUSINESS(rule, claim_kind, ...)                                                 \
	{                                                                               \
		.name = TEXT(rule), .kind = claim_kind, .missing = RECIPE_MISSING_SKIP, \
		PARTS(__VA_ARGS__)                                                      \
	}

#define GENESYS_SOURCE IS("source", "aws.partner/genesys.com*")
#define BODY(name) "detail.eventBody." name

/* All Genesys events over EventBridge have the same envelope. */
#define GENESYS_ENVELOPE(of)                                                                    \
	.id = TEXT("id"), .type = TEXT("detail-type"), .entity = TEXT(of),                      \
	.time = TEXT("detail.timestamp"), .correlation = TEXT("detail.metadata.CorrelationId"), \
	.origin = TEXT("source"), .replay = TEXT("replay-name"),                                \
	.content = TEXT("detail.eventBody")

/* GENESYS_CONVERSATION comes before its kin: it is by far the most frequent. With
 * CLOUDEVENTS_BINARY_AGAIN the preset `cloudevents` is a run of rows. */
enum row {
	GITHUB = 0,
	SHOPIFY,
	STANDARD_WEBHOOKS,
	STANDARD_WEBHOOKS_SVIX,
	CLOUDEVENTS_BINARY,
	TWILIO_MESSAGE,
	TWILIO_CALL,
	LAMBDA_BATCH,
	LAMBDA_SNS_BATCH,
	SQS_BATCH,
	LAMBDA_SQS,
	LAMBDA_SNS,
	SQS_MESSAGE,
	SNS_NOTIFICATION,
	GENESYS_CONVERSATION,
	GENESYS_AUDIT,
	GENESYS_PRESENCE,
	GENESYS_ROUTING,
	GENESYS_ROUTING_FLAT,
	GENESYS_METRICS,
	GENESYS_FLOW_METRICS,
	GENESYS_QUEUE,
	GENESYS_TRANSCRIPTION,
	GENESYS_JOURNEY,
	GENESYS_OTHER,
	GENESYS_MESSAGE,
	EVENTBRIDGE,
	CLOUDEVENTS_BINARY_AGAIN,
	CLOUDEVENTS,
	CXONE,
	STRIPE,
	JOURNEY_BATCH,
	JOURNEY,
	PLAIN
};
#define ROW_COUNT (PLAIN + 1)

#define CLOUDEVENTS_IN_HEADERS                                                         \
	{                                                                              \
		.name = "cloudevents binary",                                          \
		CONDITIONS(THERE("header:ce-specversion"),                             \
		           IS_NOT("header:content-type", "application/cloudevents*")), \
		.id = TEXT("header:ce-id"), .type = TEXT("header:ce-type"),            \
		.entity = TEXT("header:ce-subject"), .time = TEXT("header:ce-time"),   \
		.origin = TEXT("header:ce-source"),                                    \
		CLAIMS(TWO_PARTS("transport", "header:ce-source", "header:ce-id"))     \
	}

#define METRICS(title, topic)                                                          \
	{                                                                              \
		.name = title, CONDITIONS(GENESYS_SOURCE, IS("detail-type", topic)),   \
		GENESYS_ENVELOPE(BODY("conversationId")),                              \
		CLAIMS(TWO_PARTS("transport", "source", "id"),                         \
		       BUSINESS("genesys.metrics", CLAIM_ONCE, TEXT(BODY("recordId")), \
		                TEXT(BODY("metric")), TEXT(BODY("metricDate"))))       \
	}

static const struct recipe_case_spec rows[ROW_COUNT] = {
	[GITHUB] = {
		.name = "github",
		CONDITIONS(THERE("header:x-github-delivery"), THERE("header:x-github-event")),
		.id = TEXT("header:x-github-delivery"), .type = TEXT("header:x-github-event"),
		.entity = TEXT("repository.full_name"),
		CLAIMS(ONE_PART("github", "header:x-github-delivery")),
	},
	[SHOPIFY] = {
		.name = "shopify",
		CONDITIONS(THERE("header:x-shopify-topic"),
		           THERE("header:x-shopify-shop-domain")),
		.id = TEXT("header:x-shopify-webhook-id"),
		.type = TEXT("header:x-shopify-topic"), .entity = TEXT("admin_graphql_api_id"),
		.time = TEXT("header:x-shopify-triggered-at"),
		.origin = TEXT("header:x-shopify-shop-domain"),
		CLAIMS(BUSINESS("shopify", CLAIM_ONCE, TEXT("header:x-shopify-webhook-id")),
		       BUSINESS("shopify.event", CLAIM_ONCE,
				TEXT("header:x-shopify-shop-domain"),
				TEXT("header:x-shopify-topic"),
				TEXT("header:x-shopify-event-id"))),
	},
	[STANDARD_WEBHOOKS] = {
		.name = "standard-webhooks",
		CONDITIONS(THERE("header:webhook-id"), THERE("header:webhook-timestamp")),
		.id = TEXT("header:webhook-id"), .type = TEXT("type"),
		.time = TEXT("header:webhook-timestamp"),
		CLAIMS(ONE_PART("standard-webhooks", "header:webhook-id")),
	},
	/* The same under the names of before the specification; webhook-… comes first
	 * here as in the check of signatures (door/auth.h). */
	[STANDARD_WEBHOOKS_SVIX] = {
		.name = "standard-webhooks",
		CONDITIONS(THERE("header:svix-id"), THERE("header:svix-timestamp")),
		.id = TEXT("header:svix-id"), .type = TEXT("type"),
		.time = TEXT("header:svix-timestamp"),
		CLAIMS(ONE_PART("standard-webhooks", "header:svix-id")),
	},
	[CLOUDEVENTS_BINARY] = CLOUDEVENTS_IN_HEADERS,
	[TWILIO_MESSAGE] = {
		.name = "twilio message",
		CONDITIONS(THERE("form:MessageSid"), THERE("form:AccountSid")),
		.id = TEXT("form:MessageSid"), .type = TEXT("form:MessageStatus"),
		.entity = TEXT("form:MessageSid"), .origin = TEXT("form:AccountSid"),
		.correlation = TEXT("header:i-twilio-idempotency-token"),
		CLAIMS({ .name = TEXT("twilio.message"),
			 PARTS(TEXT("form:MessageSid"), TEXT("form:MessageStatus?"),
			       TEXT("form:SmsStatus?")) },
		       BUSINESS("twilio", CLAIM_ONCE,
				TEXT("header:i-twilio-idempotency-token"))),
	},
	/* Only what has a number: other requests about a call ask for its next step,
	 * and the same may be asked again. */
	[TWILIO_CALL] = {
		.name = "twilio call",
		CONDITIONS(THERE("form:CallSid"), THERE("form:SequenceNumber")),
		.id = TEXT("form:CallSid"), .type = TEXT("form:CallStatus"),
		.entity = TEXT("form:CallSid"), .origin = TEXT("form:AccountSid"),
		.correlation = TEXT("header:i-twilio-idempotency-token"),
		CLAIMS({ .name = TEXT("twilio.call"),
			 PARTS(TEXT("form:CallSid"), TEXT("form:CallStatus?"),
			       TEXT("form:SequenceNumber")) },
		       BUSINESS("twilio", CLAIM_ONCE,
				TEXT("header:i-twilio-idempotency-token"))),
	},
	[LAMBDA_BATCH] = {
		.name = "lambda batch",
		CONDITIONS(THERE("Records[0].eventSource")),
		.items = TEXT("Records"),
	},
	[LAMBDA_SNS_BATCH] = {
		.name = "lambda batch",
		CONDITIONS(THERE("Records[0].EventSource")),
		.items = TEXT("Records"),
	},
	[SQS_BATCH] = {
		.name = "sqs batch",
		CONDITIONS(THERE("Messages[0].MessageId")),
		.items = TEXT("Messages"),
	},
	[LAMBDA_SQS] = {
		.name = "sqs record",
		CONDITIONS(IS("eventSource", "aws:sqs"), THERE("messageId")),
		.id = TEXT("messageId"), .time = TEXT("attributes.SentTimestamp"),
		.origin = TEXT("eventSourceARN"), .content = TEXT("[\"body\"]"),
		.inner = TEXT("[\"body\"]"),
		CLAIMS(TWO_PARTS("sqs", "eventSourceARN", "messageId")),
	},
	[LAMBDA_SNS] = {
		.name = "sns record",
		CONDITIONS(IS("EventSource", "aws:sns"), THERE("Sns.MessageId")),
		.id = TEXT("Sns.MessageId"), .type = TEXT("Sns.Type"),
		.time = TEXT("Sns.Timestamp"), .origin = TEXT("Sns.TopicArn"),
		.content = TEXT("Sns.Message"), .inner = TEXT("Sns.Message"),
		CLAIMS(TWO_PARTS("sns", "Sns.TopicArn", "Sns.MessageId")),
	},
	[SQS_MESSAGE] = {
		.name = "sqs message",
		CONDITIONS(THERE("MessageId"), THERE("ReceiptHandle"), THERE("Body")),
		.id = TEXT("MessageId"), .time = TEXT("Attributes.SentTimestamp"),
		.content = TEXT("Body"), .inner = TEXT("Body"),
		CLAIMS(ONE_PART("sqs", "MessageId")),
	},
	[SNS_NOTIFICATION] = {
		.name = "sns notification",
		CONDITIONS(THERE("Type"), THERE("TopicArn"), THERE("MessageId")),
		.id = TEXT("MessageId"), .type = TEXT("Type"), .time = TEXT("Timestamp"),
		.origin = TEXT("TopicArn"), .content = TEXT("Message"),
		.inner = TEXT("Message"),
		CLAIMS(TWO_PARTS("sns", "TopicArn", "MessageId")),
	},
	[GENESYS_AUDIT] = {
		.name = "genesys audit",
		CONDITIONS(GENESYS_SOURCE, IS("detail-type", "v2.audits.entitytype.*")),
		GENESYS_ENVELOPE(BODY("entity.id")),
		CLAIMS(TWO_PARTS("transport", "source", "id"),
		       BUSINESS("genesys.audit", CLAIM_ONCE, TEXT(BODY("id")))),
	},
	[GENESYS_CONVERSATION] = {
		.name = "genesys conversation",
		CONDITIONS(GENESYS_SOURCE,
		           IS("detail-type", "v2.detail.events.conversation.*")),
		GENESYS_ENVELOPE(BODY("conversationId")),
		CLAIMS(TWO_PARTS("transport", "source", "id"),
		       BUSINESS("genesys.conversation", CLAIM_ONCE,
				TEXT("detail.topicName"), TEXT(BODY("participantId?")),
				TEXT(BODY("sessionId?")), TEXT(BODY("eventTime")),
				TEXT(BODY("flowOutcomeId?")), TEXT(BODY("wrapupCode?")))),
	},
	[GENESYS_PRESENCE] = {
		.name = "genesys presence",
		CONDITIONS(GENESYS_SOURCE, IS("detail-type", "v2.users.*.presence")),
		GENESYS_ENVELOPE("detail.topicName"), /* the user's id is there alone */
		CLAIMS(TWO_PARTS("transport", "source", "id"),
		       BUSINESS("genesys.presence", CLAIM_ONCE,
				TEXT("detail.topicName"), TEXT(BODY("modifiedDate")),
				TEXT(BODY("presenceDefinition.id")))),
	},
	[GENESYS_ROUTING] = {
		.name = "genesys routing status",
		CONDITIONS(GENESYS_SOURCE, IS("detail-type", "v2.users.*.routingStatus"),
		           THERE(BODY("routingStatus.status"))),
		GENESYS_ENVELOPE(BODY("id")),
		CLAIMS(TWO_PARTS("transport", "source", "id"),
		       BUSINESS("genesys.routing", CLAIM_ONCE, TEXT(BODY("id")),
				TEXT(BODY("routingStatus.status")),
				TEXT(BODY("routingStatus.startTime")))),
	},
	[GENESYS_ROUTING_FLAT] = {
		.name = "genesys routing status",
		CONDITIONS(GENESYS_SOURCE, IS("detail-type", "v2.users.*.routingStatus"),
		           THERE(BODY("status"))),
		GENESYS_ENVELOPE(BODY("id")),
		CLAIMS(TWO_PARTS("transport", "source", "id"),
		       BUSINESS("genesys.routing", CLAIM_ONCE, TEXT(BODY("id")),
				TEXT(BODY("status")), TEXT(BODY("startTime")))),
	},
	[GENESYS_METRICS] = METRICS("genesys metrics", "v2.analytics.conversation.*.metrics"),
	[GENESYS_FLOW_METRICS] = METRICS("genesys flow metrics", "v2.analytics.flow.*.metrics"),
	[GENESYS_QUEUE] = {
		.name = "genesys queue",
		CONDITIONS(GENESYS_SOURCE,
		           IS("detail-type", "v2.routing.queues.*.conversations*")),
		/* The id is the conversation's and comes with every update. */
		GENESYS_ENVELOPE(BODY("id")),
		CLAIMS(TWO_PARTS("transport", "source", "id"),
		       BUSINESS("genesys.queue", CLAIM_CONTENT, TEXT("detail.topicName"),
				TEXT("detail.eventBody"))),
	},
	[GENESYS_TRANSCRIPTION] = {
		.name = "genesys transcription",
		CONDITIONS(GENESYS_SOURCE,
		           IS("detail-type", "v2.conversations.*.transcription")),
		GENESYS_ENVELOPE(BODY("conversationId")),
		CLAIMS(TWO_PARTS("transport", "source", "id"),
		       BUSINESS("genesys.transcription", CLAIM_ONCE,
				TEXT(BODY("transcripts[*].utteranceId")),
				TEXT(BODY("transcripts[*].isFinal")))),
	},
	[GENESYS_JOURNEY] = {
		.name = "genesys journey",
		CONDITIONS(GENESYS_SOURCE,
		           IS("detail-type", "v2.journey.sessions.*.web.events")),
		GENESYS_ENVELOPE(BODY("session.id")),
		CLAIMS(TWO_PARTS("transport", "source", "id"),
		       BUSINESS("genesys.journey", CLAIM_ONCE, TEXT(BODY("id")))),
	},
	[GENESYS_OTHER] = {
		.name = "genesys",
		CONDITIONS(GENESYS_SOURCE, THERE("detail-type"), THERE("detail")),
		GENESYS_ENVELOPE("detail.topicName"),
		CLAIMS(TWO_PARTS("transport", "source", "id"),
		       { .name = TEXT("genesys.detail"),
			 .kind = CLAIM_CONTENT,
			 .missing = RECIPE_MISSING_SKIP,
			 PARTS(TEXT("detail")),
			 .except_count = 2,
			 .except = { TEXT("metadata"), TEXT("timestamp") } }),
	},
	/* The webhook of open messaging. */
	[GENESYS_MESSAGE] = {
		.name = "genesys message",
		CONDITIONS(IS("channel.platform", "Open"), THERE("id"), THERE("direction")),
		.id = TEXT("id"), .type = TEXT("type"), .entity = TEXT("channel.to.id"),
		.time = TEXT("channel.time"), .origin = TEXT("channel.from.id"),
		CLAIMS(ONE_PART("transport", "id")),
	},
	[EVENTBRIDGE] = {
		.name = "eventbridge",
		CONDITIONS(THERE("id"), THERE("source"), THERE("detail-type"),
		           THERE("detail")),
		.id = TEXT("id"), .type = TEXT("detail-type"), .entity = TEXT("resources[0]"),
		.time = TEXT("time"), .origin = TEXT("source"), .replay = TEXT("replay-name"),
		.content = TEXT("detail"),
		CLAIMS(TWO_PARTS("transport", "source", "id")),
	},
	[CLOUDEVENTS_BINARY_AGAIN] = CLOUDEVENTS_IN_HEADERS,
	[CLOUDEVENTS] = {
		.name = "cloudevents",
		CONDITIONS(THERE("specversion"), THERE("source"), THERE("id")),
		.id = TEXT("id"), .type = TEXT("type"), .entity = TEXT("subject"),
		.time = TEXT("time"), .origin = TEXT("source"), .content = TEXT("data"),
		CLAIMS(TWO_PARTS("transport", "source", "id")),
	},
	[CXONE] = {
		.name = "cxone",
		CONDITIONS(THERE("eventId"), THERE("eventType"), THERE("data.brand.tenantId")),
		.id = TEXT("eventId"), .type = TEXT("eventType"),
		.time = TEXT("createdAtWithMilliseconds"),
		.origin = TEXT("data.brand.tenantId"), .content = TEXT("data"),
		CLAIMS(TWO_PARTS("cxone", "data.brand.tenantId", "eventId")),
	},
	[STRIPE] = {
		.name = "stripe",
		CONDITIONS(IS("object", "event"), THERE("id"), THERE("data.object")),
		.id = TEXT("id"), .type = TEXT("type"), .entity = TEXT("data.object.id"),
		.time = TEXT("created"), .origin = TEXT("account"), .content = TEXT("data"),
		CLAIMS(ONE_PART("stripe", "id")),
	},
	[JOURNEY_BATCH] = {
		.name = "journey batch",
		CONDITIONS(THERE("entities[0].id"), ABSENT("id")),
		.items = TEXT("entities"),
	},
	[JOURNEY] = {
		.name = "journey",
		CONDITIONS(THERE("id"), THERE("dateCreated"), THERE("identifiers")),
		.id = TEXT("id"), .time = TEXT("dateCreated"),
		CLAIMS(ONE_PART("journey", "id")),
	},
	[PLAIN] = {
		.name = "plain",
		CONDITIONS(THERE("id")),
		.id = TEXT("id"), .type = TEXT("type"), .time = TEXT("time"),
		.origin = TEXT("source"),
		CLAIMS(ONE_PART("transport", "id")),
	},
};

#define RUN(from, to) .cases = &rows[from], .case_count = (to) - (from) + 1

static const struct preset presets[] = {
	{ "auto", "any event of the others, or a JSON object with an id", RUN(GITHUB, PLAIN) },
	{ "genesys", "Genesys Cloud over EventBridge, and its open-messaging webhook",
	  RUN(GENESYS_CONVERSATION, GENESYS_MESSAGE) },
	{ "eventbridge", "Amazon EventBridge, any source", RUN(EVENTBRIDGE, EVENTBRIDGE) },
	{ "cxone", "NICE CXone events", RUN(CXONE, CXONE) },
	{ "cloudevents", "CloudEvents 1.0: structured, binary and batches",
	  RUN(CLOUDEVENTS_BINARY_AGAIN, CLOUDEVENTS) },
	{ "standard-webhooks", "Standard Webhooks 1.0",
	  RUN(STANDARD_WEBHOOKS, STANDARD_WEBHOOKS_SVIX) },
	{ "sns", "Amazon SNS over HTTPS, and the events inside its messages",
	  RUN(SNS_NOTIFICATION, CLOUDEVENTS) },
	{ "sqs", "Amazon SQS messages and records, and the events inside",
	  RUN(LAMBDA_BATCH, CLOUDEVENTS) },
	{ "lambda", "the event of a Lambda function: Records, or a single event",
	  RUN(LAMBDA_BATCH, CLOUDEVENTS) },
	{ "journey", "Genesys external journey events", RUN(JOURNEY_BATCH, JOURNEY) },
	{ "stripe", "Stripe", RUN(STRIPE, STRIPE) },
	{ "github", "GitHub webhooks", RUN(GITHUB, GITHUB) },
	{ "shopify", "Shopify webhooks", RUN(SHOPIFY, SHOPIFY) },
	{ "twilio", "Twilio messages and status of calls", RUN(TWILIO_MESSAGE, TWILIO_CALL) },
};

const struct preset *preset_find(struct span name)
{
	for (size_t i = 0; i < ARRAY_LEN(presets); i++)
		if (span_eq(name, span_str(presets[i].name)))
			return &presets[i];
	return NULL;
}

const struct preset *preset_list(uint32_t *ret_count)
{
	*ret_count = (uint32_t)ARRAY_LEN(presets);
	return presets;
}
