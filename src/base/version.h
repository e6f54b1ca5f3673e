/* version: of stile itself; the build sets it from meson.build. Room: app. */
#pragma once

#ifndef STILE_VERSION
#define STILE_VERSION "0.1.0"
#endif
