/* preset_guide: see preset_guide.h. */
#include "config/preset_guide.h"

#include "base/check.h"

#define LINES(...)                \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}

#define API_KEY(name) LINES("header: X-Api-Key", "secret: ${" name "}")

static const struct preset_guide guides[] = {
	{ "auto", "events", "that depends on the sender", "4d",
	  LINES("auto recognises the events of all presets. Name one instead when you know",
	        "the sender: stile then rejects events of another shape."),
	  API_KEY("STILE_KEY") },
	{ "genesys", "genesys", "Genesys Cloud queues and re-publishes for up to 4 days", "4d",
	  LINES("Genesys Cloud sends its events to Amazon EventBridge. There, a rule with an API",
	        "destination posts them here: POST https://YOUR-HOST/in/genesys, with a connection",
	        "of type API key. stile takes two claims: the id of the delivery, and the natural key",
	        "of its topic, which finds an event that was published again under a new id."),
	  API_KEY("GENESYS_KEY") },
	{ "eventbridge", "eventbridge", "EventBridge retries for up to 24 hours", "2d",
	  LINES("A rule with an API destination posts events here: POST",
	        "https://YOUR-HOST/in/eventbridge, with a connection of type API key or Basic.",
	        "It waits 5 seconds for an answer and does not retry after most 4xx."),
	  API_KEY("EVENTBRIDGE_KEY") },
	{ "cxone", "cxone", "NICE does not say how long it retries", "4d",
	  LINES("NICE CXone posts events of the tenant; the key is the tenant and the event's id.",
	        "How its requests are signed is not documented: configure it to send a header with a key."),
	  API_KEY("CXONE_KEY") },
	{ "cloudevents", "cloudevents", "CloudEvents do not say how long a sender retries", "4d",
	  LINES("CloudEvents 1.0 over HTTP: structured, binary or as a batch. Equal source and id",
	        "are duplicates, as the specification says."),
	  LINES("kind: bearer", "secret: ${CLOUDEVENTS_TOKEN}") },
	{ "standard-webhooks", "webhooks",
	  "most senders of Standard Webhooks retry for up to 28 hours", "4d",
	  LINES("Senders that follow standardwebhooks.com: webhook-id recognises duplicates,",
	        "webhook-signature is checked. The secret begins with whsec_ (or whpk_)."),
	  LINES("kind: standard-webhooks", "secret: ${WEBHOOK_SECRET}") },
	{ "sns", "sns", "Amazon SNS retries HTTPS for up to an hour", "1d",
	  LINES("An HTTPS subscription of an SNS topic. The content of a message is recognised if it",
	        "is an event itself."),
	  LINES("kind: basic", "user: sns", "secret: ${SNS_PASSWORD}") },
	{ "sqs", "sqs", "SQS keeps a message for 4 days by default, at most 14", "14d",
	  LINES("Messages of an SQS queue that your own program posts here, alone or as a batch."),
	  API_KEY("SQS_KEY") },
	{ "lambda", "lambda", "Lambda retries asynchronous calls for up to 6 hours", "4d",
	  LINES("The event of a Lambda function, posted unchanged: Records of SQS or SNS,",
	        "or the bare event of EventBridge. Each record gets a verdict of its own."),
	  API_KEY("LAMBDA_KEY") },
	{ "journey", "journey", "it is your own system that sends these", "4d",
	  LINES("Genesys external journey events, {\"entities\": [...]}. They cannot be changed or",
	        "deleted once sent, so duplicates must be dropped before."),
	  API_KEY("JOURNEY_KEY") },
	{ "stripe", "stripe", "Stripe retries for up to 3 days", "4d",
	  LINES("A webhook endpoint of Stripe: https://YOUR-HOST/in/stripe. Its signing secret",
	        "begins with whsec_."),
	  LINES("kind: stripe", "secret: ${STRIPE_SECRET}") },
	{ "github", "github", "GitHub does not retry by itself, but people redeliver", "4d",
	  LINES("A webhook of a repository or organisation, content type application/json, with",
	        "a secret. X-GitHub-Delivery is the same in a redelivery."),
	  LINES("kind: github", "secret: ${GITHUB_SECRET}") },
	{ "shopify", "shopify", "Shopify retries for up to 4 hours", "2d",
	  LINES("A webhook subscription of a shop or app. The secret is the app's secret."),
	  LINES("kind: shopify", "secret: ${SHOPIFY_SECRET}") },
	{ "twilio", "twilio", "Twilio's retries depend on the kind of webhook", "2d",
	  LINES("Status callbacks of Twilio: the message and its status make the key. Twilio signs",
	        "the URL that it calls: set public_url if a proxy changes it."),
	  LINES("kind: twilio", "secret: ${TWILIO_AUTH_TOKEN}", "public_url: https://YOUR-HOST") },
};

const struct preset_guide *preset_guide_find(struct span preset)
{
	for (size_t i = 0; i < ARRAY_LEN(guides); i++)
		if (span_eq(preset, span_str(guides[i].name)))
			return &guides[i];
	return NULL;
}
