/* json without vector instructions, as other machines build it: the same tests. */
#define JSON_PORTABLE 1
#define json_scan json_scan_portable
#define json_decode json_decode_portable
#define json_wanted_init json_wanted_init_portable
#define json_type_name json_type_name_portable
#include "../../src/codec/json.c"

#include "test_json.c"
