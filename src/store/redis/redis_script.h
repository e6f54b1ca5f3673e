/*
 * redis_script: the text of redis_script.lua, made by the build.
 *
 * Room: store/redis.
 */
#pragma once

extern const char redis_script_text[];
