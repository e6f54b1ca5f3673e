/* The names of a client certificate. See tls_session.h. */
#include <errno.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "net/tls/tls_private.h"

#define NAME_LEN_MAX 255

/* Names are gathered twice: to know how much there is, and to keep it. */
struct gathering {
	struct tls_names *names; /* NULL: the first time */
	char *bytes;             /* behind the list */
	size_t count, len;
};

static void add_name(struct gathering *gathering, struct span text, bool dns)
{
	if (text.len == 0 || text.len > NAME_LEN_MAX || memchr(text.ptr, '\0', text.len) ||
	    gathering->count == TLS_NAMES_MAX)
		return;
	if (gathering->names) {
		char *copy = gathering->bytes + gathering->len;
		memcpy(copy, text.ptr, text.len);
		gathering->names->names[gathering->count] =
			(struct peer_name){ .text = span_of(copy, text.len), .dns = dns };
	}
	gathering->count++;
	gathering->len += text.len;
}

/* The last CN is the most specific one. */
static void add_subject(struct gathering *gathering, const X509 *certificate)
{
	const X509_NAME *subject = X509_get_subject_name(certificate);
	int found = -1, last = -1;
	while ((found = X509_NAME_get_index_by_NID(subject, NID_commonName, found)) >= 0)
		last = found;
	if (last < 0)
		return;
	unsigned char *text = NULL;
	const X509_NAME_ENTRY *entry = X509_NAME_get_entry(subject, last);
	int len = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry));
	if (len > 0)
		add_name(gathering, span_of(text, (size_t)len), false);
	OPENSSL_free(text);
}

static void add_dns_names(struct gathering *gathering, const X509 *certificate)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);
		if (name->type != GEN_DNS)
			continue;
		const ASN1_STRING *text = name->d.dNSName;
		add_name(gathering,
		         span_of(ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text)),
		         true);
	}
	GENERAL_NAMES_free(all);
}

static void gather(struct gathering *gathering, const X509 *certificate)
{
	add_subject(gathering, certificate);
	add_dns_names(gathering, certificate);
}

int tls_names_of(const X509 *certificate, struct tls_names **ret_names)
{
	struct gathering first = { 0 };
	gather(&first, certificate);
	size_t list = sizeof(struct tls_names) + first.count * sizeof(struct peer_name);
	struct tls_names *names = mem_alloc(list + first.len);
	if (!names)
		return -ENOMEM;
	struct gathering second = { .names = names, .bytes = (char *)names + list };
	gather(&second, certificate);
	/* OpenSSL may find no memory the second time. */
	CHECK(second.count <= first.count && second.len <= first.len);
	names->count = (uint32_t)second.count;
	*ret_names = names;
	return 0;
}
