/* Swiftlet for apps, in C: what Swift, Objective-C and everything else that calls C can use.
 *
 * Tokens only: text is turned into token ids, and back, by the app's tokenizer.
 *
 * Errors: a function that can fail returns a swiftlet_status; swiftlet_error() then has the message. No C++ exception
 * leaves the library.
 *
 * Threads: an engine can be used from any thread, and generates one token at a time whoever asks. A session belongs to
 * one thread at a time. swiftlet_session_cancel, swiftlet_engine_relieve_pressure and swiftlet_engine_set_memory may be
 * called from any thread at any moment, also while a generation runs; nothing else may be called from its callback.
 */
#ifndef SWIFTLET_H
#define SWIFTLET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SWIFTLET_API __attribute__((visibility("default")))
#else
#define SWIFTLET_API
#endif

typedef enum swiftlet_status {
  SWIFTLET_OK = 0,
  SWIFTLET_ERROR_INPUT = 1,     /* an argument that cannot be used */
  SWIFTLET_ERROR_CONTAINER = 2, /* a file that is missing, damaged or of an unknown kind */
  SWIFTLET_ERROR_MEMORY = 3,    /* the ceiling cannot hold what is asked */
  SWIFTLET_ERROR_IO = 4,        /* a read that failed while running */
  SWIFTLET_ERROR_NUMERIC = 5,   /* NaN or infinity where a number should be, or a failure of the GPU */
  SWIFTLET_CANCELLED = 6,       /* by swiftlet_session_cancel */
  SWIFTLET_ERROR_INTERNAL = 7   /* a bug */
} swiftlet_status;

/* The message of the last failure on this thread; valid until the next call on this thread. Never null. */
SWIFTLET_API const char* swiftlet_error(void);

typedef struct swiftlet_engine swiftlet_engine;
typedef struct swiftlet_session swiftlet_session;

typedef struct swiftlet_options {
  uint64_t memory;     /* ceiling of the process in bytes; 0: what the machine can spare */
  int64_t context;     /* tokens that a session can hold; 0: a default */
  const char* backend; /* "metal", "cpu"; null or "auto": the best that there is */
  int32_t threads;     /* of the CPU; 0: as many as there are */
  bool watch_pressure; /* give memory back when the system announces that it is short of it */
} swiftlet_options;

/* Opens a .qpack folder. `options` may be null: the defaults, and watch_pressure on. */
SWIFTLET_API swiftlet_status swiftlet_engine_open(const char* path, const swiftlet_options* options,
                                                  swiftlet_engine** engine);
/* Its sessions may be closed before or after it. Null is allowed. */
SWIFTLET_API void swiftlet_engine_close(swiftlet_engine* engine);

/* A new ceiling for the process, in bytes; the experts in memory become fewer or may become more. */
SWIFTLET_API swiftlet_status swiftlet_engine_set_memory(swiftlet_engine* engine, uint64_t memory);
/* Gives back half of the memory that holds experts; `freed`, which may be null, gets the bytes. It grows again by and
 * by while tokens are generated and nobody calls this. */
SWIFTLET_API swiftlet_status swiftlet_engine_relieve_pressure(swiftlet_engine* engine, uint64_t* freed);

/* A conversation. Keeps its engine alive. */
SWIFTLET_API swiftlet_status swiftlet_session_open(swiftlet_engine* engine, swiftlet_session** session);
SWIFTLET_API void swiftlet_session_close(swiftlet_session* session);
/* Forgets the conversation. */
SWIFTLET_API swiftlet_status swiftlet_session_reset(swiftlet_session* session);

typedef struct swiftlet_sampling {
  int64_t max_tokens;
  float temperature;        /* 0: the likeliest token */
  float top_p;              /* 1: off */
  int64_t top_k;            /* 0: off */
  float min_p;              /* 0: off */
  float repetition_penalty; /* 1: off */
  uint64_t seed;
} swiftlet_sampling;

/* 256 tokens, temperature 1, the rest off. */
SWIFTLET_API swiftlet_sampling swiftlet_default_sampling(void);

/* Gets each token as it is there; false ends the generation without an error. */
typedef bool (*swiftlet_on_token)(void* context, int32_t token);

/* Generates tokens after `prompt` until an end-of-text token (which is delivered), max_tokens, a full context, false
 * from the callback, or a cancellation. The whole conversation is given as `prompt` every time: what the session has
 * seen already is not computed again. `sampling` may be null: the defaults. Blocks. */
SWIFTLET_API swiftlet_status swiftlet_generate(swiftlet_session* session, const int32_t* prompt, size_t prompt_tokens,
                                               const swiftlet_sampling* sampling, swiftlet_on_token on_token,
                                               void* context);
/* Ends the generation that runs in the session, at the latest after the present layer; without one, does nothing. */
SWIFTLET_API void swiftlet_session_cancel(swiftlet_session* session);

typedef struct swiftlet_statistics {
  int64_t prompt_tokens;    /* of the last generation of the session */
  int64_t cached_tokens;    /* of the prompt: not computed again */
  int64_t generated_tokens; /* that were computed one by one: the first comes with the prompt */
  double prefill_seconds;
  double decode_seconds;
  uint64_t expert_hits; /* while decoding: experts that were in memory */
  uint64_t expert_misses;
  uint64_t bytes_read;
  uint64_t resident_bytes; /* of the process, now */
} swiftlet_statistics;

SWIFTLET_API swiftlet_statistics swiftlet_session_statistics(const swiftlet_session* session);

#ifdef __cplusplus
}
#endif

#endif
