// Talks with the server.

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function headers(key) {
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function failure(response) {
  let message = `the server answered ${response.status}`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // not a JSON error: the status has to do
  }
  return new ApiError(response.status, message);
}

export async function get(path, key) {
  const response = await fetch(path, { headers: headers(key) });
  if (!response.ok) throw await failure(response);
  return response.json();
}

// Streams an answer: onDelta(delta) for each piece, onComment(text) for what the server says about its progress. The
// result is {finish_reason, usage}.
export async function chat(request, { key, signal, onDelta, onComment }) {
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers(key) },
    body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  if (!response.ok) throw await failure(response);
  const result = { finish_reason: null, usage: null };
  for await (const line of lines(response.body)) {
    if (line.startsWith(": ")) onComment(line.slice(2));
    if (!line.startsWith("data: ")) continue;
    if (line === "data: [DONE]") return result;
    const chunk = JSON.parse(line.slice(6));
    if (chunk.error) throw new ApiError(500, chunk.error.message);
    result.usage = chunk.usage ?? result.usage;
    for (const choice of chunk.choices) {
      onDelta(choice.delta);
      result.finish_reason = choice.finish_reason ?? result.finish_reason;
    }
  }
  throw new ApiError(0, "the connection broke");
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const pieces = (rest + value).split("\n");
    rest = pieces.pop();
    yield* pieces;
  }
}
