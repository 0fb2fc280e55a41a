/* The C interface, from C: test_capi CONTAINER. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capi/swiftlet.h"

static void check(bool condition, const char* what, int line) {
  if (condition) return;
  fprintf(stderr, "line %d: %s (last error: %s)\n", line, what, swiftlet_error());
  exit(1);
}
#define CHECK(condition) check(condition, #condition, __LINE__)

#define MOST 64
typedef struct {
  int32_t tokens[MOST];
  int count;
  int stop_after; /* 0: never */
  swiftlet_session* session;
  int cancel_after; /* 0: never */
} Answer;

static bool collect(void* context, int32_t token) {
  Answer* answer = context;
  answer->tokens[answer->count++] = token;
  if (answer->cancel_after && answer->count == answer->cancel_after) swiftlet_session_cancel(answer->session);
  return answer->count < MOST && answer->count != answer->stop_after;
}

static swiftlet_sampling greedy(int64_t max_tokens) {
  swiftlet_sampling sampling = swiftlet_default_sampling();
  CHECK(sampling.temperature == 1 && sampling.max_tokens == 256);
  sampling.temperature = 0;
  sampling.max_tokens = max_tokens;
  return sampling;
}

static void check_errors(const char* path) {
  swiftlet_engine* engine = NULL;
  swiftlet_session* session = NULL;
  swiftlet_options options = {.memory = 1};
  CHECK(swiftlet_engine_open("/nowhere.qpack", NULL, &engine) == SWIFTLET_ERROR_CONTAINER);
  CHECK(engine == NULL && strstr(swiftlet_error(), "/nowhere.qpack"));
  CHECK(swiftlet_engine_open(path, &options, &engine) == SWIFTLET_ERROR_MEMORY);
  CHECK(swiftlet_engine_open(NULL, NULL, &engine) == SWIFTLET_ERROR_INPUT);
  CHECK(swiftlet_engine_open(path, NULL, NULL) == SWIFTLET_ERROR_INPUT);
  CHECK(swiftlet_session_open(NULL, &session) == SWIFTLET_ERROR_INPUT);
  CHECK(strcmp(swiftlet_error(), "engine is null") == 0);
  swiftlet_engine_close(NULL);
  swiftlet_session_close(NULL);
  swiftlet_session_cancel(NULL);
}

static void* relieve(void* engine) {
  for (int i = 0; i < 20; i++) CHECK(swiftlet_engine_relieve_pressure(engine, NULL) == SWIFTLET_OK);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  check_errors(argv[1]);

  const char* backend = argc == 3 ? argv[2] : "cpu";
  swiftlet_options options = {.memory = (uint64_t)1 << 30, .context = 256, .backend = backend, .threads = 2};
  swiftlet_engine* engine = NULL;
  swiftlet_session* session = NULL;
  CHECK(swiftlet_engine_open(argv[1], &options, &engine) == SWIFTLET_OK);
  CHECK(swiftlet_session_open(engine, &session) == SWIFTLET_OK);

  const int32_t prompt[] = {10, 11, 12, 13, 14};
  swiftlet_sampling sampling = greedy(16);
  Answer first = {.count = 0};
  CHECK(swiftlet_generate(session, prompt, 5, &sampling, collect, &first) == SWIFTLET_OK);
  CHECK(first.count > 0 && first.count <= 16);
  swiftlet_statistics statistics = swiftlet_session_statistics(session);
  CHECK(statistics.prompt_tokens == 5 && statistics.cached_tokens == 0);
  CHECK(statistics.generated_tokens == first.count - 1);
  CHECK(statistics.resident_bytes > 0);

  /* The same answer again, anew, and while another thread takes memory away. */
  CHECK(swiftlet_session_reset(session) == SWIFTLET_OK);
  pthread_t other;
  CHECK(pthread_create(&other, NULL, relieve, engine) == 0);
  Answer second = {.count = 0};
  CHECK(swiftlet_generate(session, prompt, 5, &sampling, collect, &second) == SWIFTLET_OK);
  CHECK(pthread_join(other, NULL) == 0);
  CHECK(second.count == first.count);
  CHECK(memcmp(second.tokens, first.tokens, sizeof first.tokens) == 0);
  CHECK(swiftlet_engine_set_memory(engine, (uint64_t)2 << 30) == SWIFTLET_OK);

  /* A follow-up: what the session has seen is not computed again. */
  int32_t longer[MOST + 8];
  memcpy(longer, prompt, sizeof prompt);
  memcpy(longer + 5, first.tokens, sizeof(int32_t) * (size_t)first.count);
  longer[5 + first.count] = 20;
  Answer third = {.stop_after = 1};
  CHECK(swiftlet_generate(session, longer, 6 + (size_t)first.count, &sampling, collect, &third) == SWIFTLET_OK);
  CHECK(third.count == 1); /* the callback said enough */
  CHECK(swiftlet_session_statistics(session).cached_tokens == 5 + first.count - 1);

  Answer cancelled = {.cancel_after = 2, .session = session};
  swiftlet_status status = swiftlet_generate(session, prompt, 5, &sampling, collect, &cancelled);
  CHECK(first.count <= 2 || (status == SWIFTLET_CANCELLED && cancelled.count == 2));

  const int32_t outside[] = {1 << 30};
  CHECK(swiftlet_generate(session, outside, 1, NULL, collect, &third) == SWIFTLET_ERROR_INPUT);
  CHECK(strstr(swiftlet_error(), "1073741824"));
  CHECK(swiftlet_generate(session, prompt, 0, NULL, collect, &third) == SWIFTLET_ERROR_INPUT);

  /* In the other order: the session keeps what it needs. */
  swiftlet_engine_close(engine);
  Answer last = {.count = 0};
  CHECK(swiftlet_generate(session, prompt, 5, &sampling, collect, &last) == SWIFTLET_OK);
  CHECK(last.count == first.count);
  swiftlet_session_close(session);
  printf("ok: %d tokens\n", first.count);
  return 0;
}
