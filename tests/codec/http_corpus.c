/* Requests and what becomes of them. See http_corpus.h. */
#include "codec/http_corpus.h"

/* Bytes may hold NUL: the length is the literal's. */
#define ROW(what, status, bytes)                             \
	{                                                    \
		what, bytes, sizeof(bytes) - 1, status, NULL \
	}
#define WHOLE(what, bytes, body)                          \
	{                                                 \
		what, bytes, sizeof(bytes) - 1, 200, body \
	}

/* clang-format off */
const struct http_corpus_row http_corpus[] = {
	WHOLE("the smallest GET",
	    "GET / HTTP/1.1\r\nHost: a\r\n\r\n", ""),
	WHOLE("HTTP/1.0 without Host",
	    "GET / HTTP/1.0\r\n\r\n", ""),
	WHOLE("a fixed body",
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
	    "\r\nhello", "hello"),
	WHOLE("an empty fixed body",
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n"
	    "\r\n", ""),
	WHOLE("leading zeros in Content-Length",
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 005\r\n"
	    "\r\nhello", "hello"),
	WHOLE("a GET with a body",
	    "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
	    "\r\nab", "ab"),
	WHOLE("blanks around a value",
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \t 5 \t \r\n"
	    "\r\nhello", "hello"),
	WHOLE("no blank behind the colon",
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:5\r\n"
	    "\r\nhello", "hello"),
	WHOLE("an empty value",
	    "POST / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", ""),
	WHOLE("a value of blanks only",
	    "POST / HTTP/1.1\r\nHost: a\r\nX:  \t \r\n"
	    "\r\n", ""),
	WHOLE("tab inside a value",
	    "POST / HTTP/1.1\r\nHost: a\r\nX: a\tb\r\n"
	    "\r\n", ""),
	WHOLE("obs-text in a value",
	    "POST / HTTP/1.1\r\nHost: a\r\nX: \351\377\r\n"
	    "\r\n", ""),
	WHOLE("every token byte in a name",
	    "POST / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~09azAZ: 1\r\n"
	    "\r\n", ""),
	WHOLE("header names in any case",
	    "POST / HTTP/1.1\r\nHost: a\r\ncOnTeNt-LeNgTh: 2\r\n"
	    "\r\nab", "ab"),
	ROW("a query", 200,
	    "GET /a/b?c=d&e HTTP/1.1\r\nHost: a\r\n"
	    "\r\n"),
	ROW("a second question mark belongs to the query", 200,
	    "GET /?a?b HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("percent and odd but printable bytes in the target", 200,
	    "GET /%00%zz<>\"{}|\\^`~ HTTP/1.1\r\n"
	    "Host: a\r\n\r\n"),
	ROW("an unknown method", 200,
	    "BREW / HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("a method in small letters is another method", 200,
	    "get / HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form", 200,
	    "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form with a path and a query", 200,
	    "GET http://a/b/c?d=http://e/ HTTP/1.1\r\nHost: a\r\n\r\n"),
	WHOLE("absolute form, https, a port, a body",
	    "POST https://a.example:8443/in HTTP/1.1\r\nHost: a.example:8443\r\n"
	    "Content-Length: 2\r\n\r\nab", "ab"),
	ROW("absolute form, scheme and host in any case", 200,
	    "GET HTTP://A/ HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form with an IPv6 address", 200,
	    "GET http://[::1]:80/ HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"),
	ROW("absolute form without a path", 200,
	    "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form in HTTP/1.0 without Host", 200,
	    "GET http://a/ HTTP/1.0\r\n\r\n"),
	ROW("OPTIONS in absolute form", 200,
	    "OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("OPTIONS *", 200,
	    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("one empty line before the request", 200,
	    "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("Host with a port", 200,
	    "POST / HTTP/1.1\r\nHost: example.com:8080\r\n"
	    "\r\n"),
	ROW("Host with IPv6", 200,
	    "POST / HTTP/1.1\r\nHost: [::1]:80\r\n"
	    "\r\n"),
	ROW("Connection: close", 200,
	    "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
	    "\r\n"),
	ROW("Connection: keep-alive, others", 200,
	    "POST / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, TE ,,x\r\n"
	    "\r\n"),
	WHOLE("Expect: 100-continue with the body there",
	    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
	    "Content-Length: 2\r\n\r\nab", "ab"),
	WHOLE("Expect in capitals",
	    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-CONTINUE\r\n"
	    "Content-Length: 1\r\n\r\na", "a"),
	WHOLE("Content-Encoding: identity",
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: identity\r\n"
	    "Content-Length: 1\r\n\r\na", "a"),
	WHOLE("Expect is ignored in HTTP/1.0",
	    "POST / HTTP/1.0\r\nExpect: x\r\nContent-Length: 1\r\n"
	    "\r\na", "a"),
	WHOLE("chunked",
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5\r\nhello\r\n0\r\n\r\n", "hello"),
	WHOLE("two chunks",
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", "hello"),
	WHOLE("an empty chunked body",
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\n\r\n", ""),
	WHOLE("chunk size in capitals and small",
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\nA\r\n0123456789\r\na\r\n0123456789\r\n"
	    "0\r\n\r\n", "01234567890123456789"),
	WHOLE("chunk size with leading zeros",
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n005\r\nhello\r\n000\r\n\r\n", "hello"),
	WHOLE("a chunk extension",
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5;a=b;c=\"d e\"\r\nhello\r\n0;x\r\n\r\n", "hello"),
	WHOLE("an empty chunk extension",
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5;\r\nhello\r\n0\r\n\r\n", "hello"),
	WHOLE("trailers are dropped",
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n1\r\na\r\n0\r\nX: y\r\nZ:\r\n\r\n", "a"),
	WHOLE("a forbidden trailer is dropped too",
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n1\r\na\r\n0\r\nContent-Length: 9\r\n\r\n", "a"),
	WHOLE("CR LF inside a chunk is data",
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n6\r\na\r\n0\r\n\r\n0\r\n\r\n", "a\r\n0\r\n"),
	ROW("nothing", 0,
	    ""),
	ROW("half a method", 0,
	    "PO"),
	ROW("a lone CR before the request", 0,
	    "\r"),
	ROW("an empty line only", 0,
	    "\r\n"),
	ROW("half a request line", 0,
	    "POST / HT"),
	ROW("a request line only", 0,
	    "POST / HTTP/1.1\r\n"),
	ROW("half a header", 0,
	    "POST / HTTP/1.1\r\nHos"),
	ROW("the last line feed is missing", 0,
	    "POST / HTTP/1.1\r\nHost: a\r\n\r"),
	ROW("half a body", 0,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
	    "\r\nhel"),
	ROW("no body yet", 0,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
	    "\r\n"),
	ROW("no chunk yet", 0,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n"),
	ROW("half a chunk size", 0,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5"),
	ROW("half a chunk", 0,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5\r\nhel"),
	ROW("the end of a chunk is missing", 0,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5\r\nhello"),
	ROW("the last chunk is missing", 0,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5\r\nhello\r\n"),
	ROW("the end of the trailers is missing", 0,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\n"),
	ROW("half a trailer", 0,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\nX: y"),
	ROW("LF instead of CR LF", 400,
	    "GET / HTTP/1.1\nHost: a\n\n"),
	ROW("LF behind the request line", 400,
	    "GET / HTTP/1.1\nHost: a\r\n\r\n"),
	ROW("LF behind a header", 400,
	    "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"),
	ROW("LF as the empty line", 400,
	    "GET / HTTP/1.1\r\nHost: a\r\n\n"),
	ROW("LF first", 400,
	    "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("two empty lines before the request", 400,
	    "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("a bare CR in a value", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n"
	    "\r\n"),
	ROW("CR CR LF", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: a\r\r\n"
	    "\r\n"),
	ROW("CR in a name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX\rY: a\r\n"
	    "\r\n"),
	ROW("a bare CR as a line end before Content-Length", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: a\rContent-Length: 5\r\n"
	    "\r\nhello"),
	ROW("CR in the target", 400,
	    "GET /\r HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("CR behind the method", 400,
	    "GET\r / HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("no target", 400,
	    "GET HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("an empty target", 400,
	    "GET  HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("two blanks behind the method", 400,
	    "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("two blanks behind the target", 400,
	    "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("a blank behind the version", 400,
	    "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
	ROW("a blank before the method", 400,
	    " GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("a tab behind the method", 400,
	    "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("a tab behind the target", 400,
	    "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("no version", 400,
	    "GET /\r\nHost: a\r\n\r\n"),
	ROW("HTTP/0.9 style with a blank", 400,
	    "GET / \r\nHost: a\r\n\r\n"),
	ROW("a blank in the target", 400,
	    "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("a NUL in the target", 400,
	    "GET /\000 HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("DEL in the target", 400,
	    "GET /\177 HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("UTF-8 in the target", 400,
	    "GET /\303\251 HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("a control byte in the target", 400,
	    "GET /\001 HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("a fragment", 400,
	    "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form with another Host", 400,
	    "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n"),
	ROW("absolute form with a port that Host lacks", 400,
	    "GET http://a:80/ HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form with Host's beginning", 400,
	    "GET http://a/ HTTP/1.1\r\nHost: ab\r\n\r\n"),
	ROW("absolute form without Host", 400,
	    "GET http://a/ HTTP/1.1\r\n\r\n"),
	ROW("absolute form with two Hosts", 400,
	    "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
	ROW("absolute form with userinfo", 400,
	    "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form with userinfo in Host too", 400,
	    "GET http://u@a/ HTTP/1.1\r\nHost: u@a\r\n\r\n"),
	ROW("absolute form without a host", 400,
	    "GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form, the scheme alone", 400,
	    "GET http:// HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form with one slash", 400,
	    "GET http:/a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form with a backslash", 400,
	    "GET http://a\\b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form with a query and no path", 400,
	    "GET http://a?b HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form with a fragment", 400,
	    "GET http://a/#b HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form with a fragment and no path", 400,
	    "GET http://a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form of another scheme", 400,
	    "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form without a scheme", 400,
	    "GET a/b HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("absolute form with a percent-encoded slash for the path", 400,
	    "GET http://a%2fb HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("authority form", 400,
	    "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n"
	    "\r\n"),
	ROW("a relative target", 400,
	    "GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("GET *", 400,
	    "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("OPTIONS **", 400,
	    "OPTIONS ** HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("a colon in the method", 400,
	    "GE:T / HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("a NUL in the method", 400,
	    "G\000T / HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("a slash in the method", 400,
	    "G/T / HTTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("only a method", 400,
	    "GET\r\nHost: a\r\n\r\n"),
	ROW("http in small letters", 400,
	    "GET / http/1.1\r\nHost: a\r\n\r\n"),
	ROW("HTTP/1", 400,
	    "GET / HTTP/1\r\nHost: a\r\n\r\n"),
	ROW("HTTP/1.", 400,
	    "GET / HTTP/1.\r\nHost: a\r\n\r\n"),
	ROW("HTTP/11.1", 400,
	    "GET / HTTP/11.1\r\nHost: a\r\n\r\n"),
	ROW("HTTP/1.10", 400,
	    "GET / HTTP/1.10\r\nHost: a\r\n\r\n"),
	ROW("HTTP/a.b", 400,
	    "GET / HTTP/a.b\r\nHost: a\r\n\r\n"),
	ROW("HTTP/1,1", 400,
	    "GET / HTTP/1,1\r\nHost: a\r\n\r\n"),
	ROW("HTP/1.1", 400,
	    "GET / HTP/1.1\r\nHost: a\r\n\r\n"),
	ROW("HTTP /1.1", 400,
	    "GET / HTTP /1.1\r\nHost: a\r\n\r\n"),
	ROW("a second version", 400,
	    "GET / HTTP/1.1 HTTP/1.1\r\nHost: a\r\n"
	    "\r\n"),
	ROW("HTTP/+1.1", 400,
	    "GET / HTTP/+1.1\r\nHost: a\r\n\r\n"),
	ROW("HTTP/1.1x", 400,
	    "GET / HTTP/1.1x\r\nHost: a\r\n\r\n"),
	ROW("HTTP1.1 without a slash", 400,
	    "GET / HTTP11.1\r\nHost: a\r\n\r\n"),
	ROW("HTTP/0.9", 505,
	    "GET / HTTP/0.9\r\nHost: a\r\n\r\n"),
	ROW("HTTP/1.2", 505,
	    "GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
	ROW("HTTP/1.9", 505,
	    "GET / HTTP/1.9\r\nHost: a\r\n\r\n"),
	ROW("HTTP/2.0", 505,
	    "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
	ROW("HTTP/3.0", 505,
	    "GET / HTTP/3.0\r\nHost: a\r\n\r\n"),
	ROW("HTTP/9.9", 505,
	    "GET / HTTP/9.9\r\nHost: a\r\n\r\n"),
	ROW("HTTP/0.0", 505,
	    "GET / HTTP/0.0\r\nHost: a\r\n\r\n"),
	ROW("the preface of HTTP/2", 505,
	    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
	ROW("a TLS hello", 400,
	    "\026\003\001\002\000\001\000\001"),
	ROW("a NUL first", 400,
	    "\000GET / HTTP/1.1\r\n\r\n"),
	ROW("a header as the request line", 400,
	    "Host: a\r\n\r\n"),
	ROW("an HTTP answer", 400,
	    "HTTP/1.1 200 OK\r\n\r\n"),
	ROW("obs-fold with a blank", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: a\r\n"
	    " b\r\n\r\n"),
	ROW("obs-fold with a tab", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: a\r\n"
	    "\tb\r\n\r\n"),
	ROW("a fold behind the request line", 400,
	    "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
	ROW("a folded Transfer-Encoding", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n"
	    " chunked\r\n\r\n0\r\n\r\n"),
	ROW("a folded Content-Length", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n"
	    "\t5\r\n\r\nhello"),
	ROW("a blank before the colon", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX : a\r\n"
	    "\r\n"),
	ROW("a tab before the colon", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX\t: a\r\n"
	    "\r\n"),
	ROW("a blank before the colon of Content-Length", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n"
	    "\r\nhello"),
	ROW("a blank before the colon of Transfer-Encoding", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("a tab before the colon of Transfer-Encoding", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("an empty name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\n: a\r\n"
	    "\r\n"),
	ROW("a line without a colon", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"),
	ROW("a blank in a name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX Y: a\r\n"
	    "\r\n"),
	ROW("a NUL in a name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX\000: a\r\n"
	    "\r\n"),
	ROW("a NUL in a value", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: a\000b\r\n"
	    "\r\n"),
	ROW("a NUL before a name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\n\000Transfer-Encoding: chunked\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("a control byte in a value", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: \001\r\n"
	    "\r\n"),
	ROW("vertical tab in a value", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: a\013b\r\n"
	    "\r\n"),
	ROW("form feed behind a value", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: a\014\r\n"
	    "\r\n"),
	ROW("escape in a value", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: \033[31m\r\n"
	    "\r\n"),
	ROW("DEL in a value", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: \177\r\n"
	    "\r\n"),
	ROW("a control byte far into a long value", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: 0123456789012345678901234567890123456789\002\r\n"
	    "\r\n"),
	ROW("a NUL as the 16th byte of a value", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: 012345678901234\000\r\n"
	    "\r\n"),
	ROW("obs-text in a name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX\351: a\r\n"
	    "\r\n"),
	ROW("a bracket in a name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX(Y): a\r\n"
	    "\r\n"),
	ROW("a comma in a name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX,Y: a\r\n"
	    "\r\n"),
	ROW("a quote in a name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\n\"X\": a\r\n"
	    "\r\n"),
	ROW("an at in a name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX@: a\r\n"
	    "\r\n"),
	ROW("a slash in a name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX/Y: a\r\n"
	    "\r\n"),
	ROW("a vertical tab behind the name of Transfer-Encoding", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\013: chunked\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("no Host", 400,
	    "GET / HTTP/1.1\r\n\r\n"),
	ROW("no Host but others", 400,
	    "GET / HTTP/1.1\r\nX-Host: a\r\n\r\n"),
	ROW("two Hosts", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\n"
	    "\r\n"),
	ROW("the same Host twice", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nHost: a\r\n"
	    "\r\n"),
	ROW("two Hosts in HTTP/1.0", 400,
	    "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n"
	    "\r\n"),
	ROW("an empty Host", 400,
	    "POST / HTTP/1.1\r\nHost: \r\n\r\n"),
	ROW("Host with a blank", 400,
	    "POST / HTTP/1.1\r\nHost: a b\r\n\r\n"),
	ROW("Host with a slash", 400,
	    "POST / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
	ROW("Host with userinfo", 400,
	    "POST / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
	ROW("Host with a list", 400,
	    "POST / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
	ROW("Host with a fragment", 400,
	    "POST / HTTP/1.1\r\nHost: a#b\r\n\r\n"),
	ROW("Host with a query", 400,
	    "POST / HTTP/1.1\r\nHost: a?b\r\n\r\n"),
	ROW("Host with a backslash", 400,
	    "POST / HTTP/1.1\r\nHost: a\\b\r\n\r\n"),
	ROW("Host with obs-text", 400,
	    "POST / HTTP/1.1\r\nHost: \351\r\n\r\n"),
	ROW("Host with a quote", 400,
	    "POST / HTTP/1.1\r\nHost: \"a\"\r\n\r\n"),
	ROW("Content-Length: an empty Content-Length", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n"
	    "\r\nhello"),
	ROW("Content-Length: a sign", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n"
	    "\r\nhello"),
	ROW("Content-Length: a negative Content-Length", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n"
	    "\r\nhello"),
	ROW("Content-Length: hexadecimal Content-Length", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n"
	    "\r\nhello"),
	ROW("Content-Length: a list of equal lengths", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n"
	    "\r\nhello"),
	ROW("Content-Length: a list of lengths", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5,6\r\n"
	    "\r\nhello"),
	ROW("Content-Length: a blank inside", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n"
	    "\r\nhello"),
	ROW("Content-Length: letters behind", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5a\r\n"
	    "\r\nhello"),
	ROW("Content-Length: a fraction", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5.0\r\n"
	    "\r\nhello"),
	ROW("Content-Length: an exponent", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1e3\r\n"
	    "\r\nhello"),
	ROW("Content-Length: a quote", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \"5\"\r\n"
	    "\r\nhello"),
	ROW("Content-Length: beyond 64 bits", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n"
	    "\r\nhello"),
	ROW("Content-Length: 64 bits", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n"
	    "\r\nhello"),
	ROW("Content-Length: many digits", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999999999999\r\n"
	    "\r\nhello"),
	ROW("Content-Length: wraps to 5", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n"
	    "\r\nhello"),
	ROW("Content-Length: beyond 63 bits", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n"
	    "\r\nhello"),
	ROW("Content-Length: fullwidth digits", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \357\274\225\r\n"
	    "\r\nhello"),
	ROW("Content-Length: a superscript", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \262\r\n"
	    "\r\nhello"),
	ROW("Content-Length: a trailing comma", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5,\r\n"
	    "\r\nhello"),
	ROW("Content-Length: a leading comma", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ,5\r\n"
	    "\r\nhello"),
	ROW("Content-Length: an underscore", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n"
	    "\r\nhello"),
	ROW("Content-Length twice", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
	    "Content-Length: 6\r\n\r\nhello"),
	ROW("the same Content-Length twice", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
	    "Content-Length: 5\r\n\r\nhello"),
	ROW("Content-Length twice in other case", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
	    "content-length: 5\r\n\r\nhello"),
	ROW("a body beyond the limit", 413,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n"
	    "\r\n"),
	ROW("the largest length", 413,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n"
	    "\r\n"),
	ROW("Content-Length, then Transfer-Encoding", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
	    "Transfer-Encoding: chunked\r\n\r\n0\r\n"
	    "\r\n"),
	ROW("Transfer-Encoding, then Content-Length", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "Content-Length: 5\r\n\r\n0\r\n\r\n"),
	ROW("Content-Length: 0 with Transfer-Encoding", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "Content-Length: 0\r\n\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding twice", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "Transfer-Encoding: chunked\r\n\r\n0\r\n"
	    "\r\n"),
	ROW("chunked, then identity", 501,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n"
	    "Transfer-Encoding: chunked\r\n\r\n0\r\n"
	    "\r\n"),
	ROW("chunked behind gzip", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("chunked before gzip", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("chunked twice in a list", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: gzip", 501,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: identity", 501,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: deflate", 501,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: deflate\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: xchunked", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: chunkedx", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunkedx\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: with a parameter", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: in quotes", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: in capitals", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: in mixed case", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: cHuNkEd\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: a comma in front", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ,chunked\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: a comma behind", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: empty", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: cow", 501,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: cow\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: a colon in front", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: : chunked\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding with a vertical tab", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \013chunked\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding behind a NUL", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\000\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding in HTTP/1.0", 400,
	    "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\n\r\n"),
	ROW("chunk: no digits", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n\r\nhello\r\n0\r\n\r\n"),
	ROW("chunk: 0x in front", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0x5\r\nhello\r\n0\r\n\r\n"),
	ROW("chunk: a sign", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n+5\r\nhello\r\n0\r\n\r\n"),
	ROW("chunk: negative", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n-5\r\nhello\r\n"),
	ROW("chunk: a blank in front", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n 5\r\nhello\r\n"),
	ROW("chunk: a blank behind", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5 \r\nhello\r\n"),
	ROW("chunk: a blank before the extension", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5 ;a\r\nhello\r\n"),
	ROW("chunk: a tab behind", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5\t\r\nhello\r\n"),
	ROW("chunk: a letter beyond f", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5g\r\nhello\r\n"),
	ROW("chunk: LF only", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5\nhello\r\n0\r\n\r\n"),
	ROW("chunk: CR only", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5\rhello\r\n"),
	ROW("chunk: LF behind data", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5\r\nhello\n0\r\n\r\n"),
	ROW("chunk: data too long", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5\r\nhello!\r\n0\r\n\r\n"),
	ROW("chunk: data too short", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5\r\nhell\r\n0\r\n\r\n"),
	ROW("chunk: too many digits", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0000000000000005\r\nhello\r\n"),
	ROW("chunk: a quote", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n\"5\"\r\nhello\r\n"),
	ROW("chunk: an underscore", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n1_0\r\n"),
	ROW("chunk: a NUL", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5\000\r\nhello\r\n"),
	ROW("chunk: a NUL in the extension", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5;\000\r\nhello\r\n"),
	ROW("chunk: a CR in the extension", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5;a\rb\r\nhello\r\n"),
	ROW("chunk: LF in the extension", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5;a\nb\r\nhello\r\n"),
	ROW("chunk: LF behind the last chunk", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\n\r\n"),
	ROW("chunk: LF as the empty line", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\n\n"),
	ROW("chunk: garbage behind the last chunk", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\n\r!"),
	ROW("chunk: a bad trailer name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\nX Y: a\r\n\r\n"),
	ROW("chunk: a trailer without a colon", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\nXY\r\n\r\n"),
	ROW("chunk: a folded trailer", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\nX: a\r\n b\r\n\r\n"),
	ROW("chunk: an empty trailer name", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\n: a\r\n\r\n"),
	ROW("chunk: a NUL in a trailer", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\nX: \000\r\n\r\n"),
	ROW("chunk: LF behind a trailer", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\nX: a\n\r\n"),
	ROW("chunk: a blank before a trailer's colon", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n0\r\nX : a\r\n\r\n"),
	ROW("chunk: comma for a size", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n5,5\r\nhello\r\n"),
	ROW("chunk beyond the limit", 413,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\n100001\r\n"),
	ROW("chunk of 60 bits", 413,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	    "\r\nfffffffffffffff\r\n"),
	ROW("an unknown expectation", 417,
	    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n"
	    "\r\n"),
	ROW("an empty expectation", 417,
	    "POST / HTTP/1.1\r\nHost: a\r\nExpect:\r\n"
	    "\r\n"),
	ROW("two expectations in one", 417,
	    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, x\r\n"
	    "\r\n"),
	ROW("Content-Encoding: gzip", 415,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\n"
	    "Content-Length: 1\r\n\r\na"),
	ROW("Content-Encoding: identity, gzip", 415,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: identity, gzip\r\n"
	    "\r\n"),
	ROW("an empty Content-Encoding", 415,
	    "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding:\r\n"
	    "\r\n"),
	ROW("Connection is no list of tokens", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nConnection: close;x\r\n"
	    "\r\n"),
	ROW("Connection with a quote", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nConnection: \"close\"\r\n"
	    "\r\n"),
	ROW("chunk: no digits as the last chunk", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "\r\n\r\n"),
	ROW("chunk: an extension without a size", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	    ";x\r\n\r\n"),
	ROW("chunk: LF LF behind data", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "5\r\nhello\n\n0\r\n\r\n"),
	ROW("chunk: CR CR behind data", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "5\r\nhello\r\r0\r\n\r\n"),
	ROW("chunk: CR CR behind the size", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "5\r\rhello\r\n0\r\n\r\n"),
	ROW("chunk: CR CR behind the last chunk", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "0\r\r\r\n"),
	ROW("chunk: CR CR behind a trailer", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "0\r\nX: a\r\r\r\n"),
	ROW("chunk: CR CR at the end", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "0\r\n\r\r"),
	ROW("DEL far from the end of a value", 400,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: 0123\1770123456789012345678901234567890123456789\r\n"
	    "\r\n"),
	ROW("obs-text far from the end of a value", 200,
	    "POST / HTTP/1.1\r\nHost: a\r\nX: 0123\2000123456789012345678901234567890123456789\r\n"
	    "\r\n"),
};
/* clang-format on */

const size_t http_corpus_count = sizeof(http_corpus) / sizeof(http_corpus[0]);
