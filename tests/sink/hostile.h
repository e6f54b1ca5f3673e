/*
 * hostile: an HTTP server that misbehaves on request, on threads of its own.
 *
 * What it does is chosen by the path (see the table in hostile.c): it answers well,
 * dies at any step, stalls, lies. It counts the requests whose head it has read, and
 * keeps the newest.
 */
#pragma once

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "support/test.h"

#define HOSTILE_HEAD_MAX 16384
#define HOSTILE_CONNECTIONS_MAX 256

struct hostile {
	int fd;
	uint16_t port;
	SSL_CTX *tls;              /* NULL: plain */
	bool http2;                /* with TLS: a small HTTP/2 that answers 200 to everything */
	unsigned char http2_error; /* … or resets every stream with this code */
	unsigned http2_last;       /* … or answers so many on its first connection, then GOAWAY */
	bool deaf;                 /* closes each connection before it reads */
	pthread_t thread;
	pthread_mutex_t lock;
	atomic_uint connections, requests;
	size_t head_len, body_len;
	char head[HOSTILE_HEAD_MAX]; /* of the newest request, NUL behind it */
	char *body;
	pthread_t workers[HOSTILE_CONNECTIONS_MAX];
	int sockets[HOSTILE_CONNECTIONS_MAX];
	atomic_bool stop;
};

void hostile_open(struct hostile *server);
void hostile_close(struct hostile *server);

/* Is the line there? "Name: value" as it was sent. */
bool hostile_has_line(struct hostile *server, const char *line);
bool hostile_begins(struct hostile *server, const char *text); /* the head */
bool hostile_has(struct hostile *server, const char *text);    /* anywhere in the head */
bool hostile_body_is(struct hostile *server, const char *text);
bool hostile_has_name(struct hostile *server, const char *name);

/* Certificates: a CA, and what it vouches for. */
struct hostile_ca {
	char dir[256];
	char ca_file[300];
	char cert_file[300], key_file[300]; /* for a client */
	EVP_PKEY *key;
	X509 *cert;
};

struct hostile_name {
	const char *name; /* DNS, or an address */
	bool expired;
};

void hostile_ca_open(struct hostile_ca *ca);
void hostile_ca_close(struct hostile_ca *ca);
SSL_CTX *hostile_ca_server(struct hostile_ca *ca, const struct hostile_name *name);
