// The page: conversations on the left, one of them in the middle.

import { ApiError, chat, get } from "/page/api.js";
import { render } from "/page/markdown.js";
import { loadConversations, loadSettings, saveConversations, saveSettings } from "/page/store.js";

const $ = (id) => document.getElementById(id);
const conversations = loadConversations();
let current = conversations[0] ?? null;
let model = null;
let running = null; // the AbortController of the answer that is coming

// Settings ------------------------------------------------------------------------------------------------------------

const FIELDS = ["system", "thinking", "temperature", "max-tokens", "key"];

function setUpSettings() {
  const settings = loadSettings();
  for (const id of FIELDS) {
    $(id).value = settings[id] ?? "";
    $(id).addEventListener("change", () => {
      saveSettings(Object.fromEntries(FIELDS.map((field) => [field, $(field).value])));
      if (id === "key") findModel();
    });
  }
}

function requestFor(messages) {
  const system = $("system").value.trim();
  const request = {
    model,
    // Thoughts of earlier turns go back too: the template leaves them out where the model does not want them.
    messages: [...(system ? [{ role: "system", content: system }] : []), ...messages],
  };
  if ($("thinking").value) request.enable_thinking = $("thinking").value === "on";
  if ($("temperature").value !== "") request.temperature = Number($("temperature").value);
  if ($("max-tokens").value !== "") request.max_tokens = Number($("max-tokens").value);
  return request;
}

// Messages ------------------------------------------------------------------------------------------------------------

function addTurn(message) {
  const turn = document.createElement("article");
  turn.className = `turn ${message.role}`;
  turn.setAttribute("aria-label", message.role === "user" ? "You" : "The model");
  $("log").append(turn);
  if (message.role === "user") turn.textContent = message.content;
  else showAnswer(turn, message, false);
  return turn;
}

function showAnswer(turn, message, coming) {
  let thoughts = turn.querySelector(":scope > details");
  if (message.reasoning_content && !thoughts) {
    thoughts = document.createElement("details");
    thoughts.append(document.createElement("summary"), document.createElement("div"));
    turn.prepend(thoughts);
  }
  if (thoughts) {
    thoughts.firstChild.textContent = coming && !message.content ? "Thinking …" : "Thoughts";
    thoughts.lastChild.textContent = message.reasoning_content;
  }
  turn.querySelector(":scope > .content")?.remove();
  const content = document.createElement("div");
  content.className = "content";
  content.append(render(message.content));
  if (message.note) {
    const note = document.createElement("p");
    note.className = message.failed ? "error" : "";
    note.textContent = message.note;
    content.append(note);
  }
  turn.append(content);
}

function showConversation() {
  $("log").replaceChildren();
  for (const message of current?.messages ?? []) addTurn(message);
  $("title").textContent = current?.title ?? "New conversation";
  $("log").scrollTop = $("log").scrollHeight;
  showList();
}

function showList() {
  const items = conversations.map((conversation) => {
    const item = document.createElement("li");
    const open = document.createElement("button");
    open.type = "button";
    open.className = "open";
    open.textContent = conversation.title;
    open.setAttribute("aria-current", String(conversation === current));
    open.addEventListener("click", () => choose(conversation));
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "delete";
    remove.textContent = "×";
    remove.setAttribute("aria-label", `Delete the conversation “${conversation.title}”`);
    remove.addEventListener("click", () => forget(conversation));
    item.append(open, remove);
    return item;
  });
  $("conversations").replaceChildren(...items);
}

function choose(conversation) {
  running?.abort();
  current = conversation;
  showMenu(false);
  showConversation();
  $("question").focus();
}

function forget(conversation) {
  if (!confirm(`Delete “${conversation.title}”?`)) return;
  if (conversation === current) running?.abort();
  conversations.splice(conversations.indexOf(conversation), 1);
  saveConversations(conversations);
  if (conversation === current) current = conversations[0] ?? null;
  showConversation();
}

function showMenu(shown) {
  $("side").classList.toggle("shown", shown);
  $("menu").setAttribute("aria-expanded", String(shown));
}

// Answers -------------------------------------------------------------------------------------------------------------

async function ask(text) {
  if (!current) {
    current = { id: crypto.randomUUID?.() ?? String(Date.now()), title: text.slice(0, 60), messages: [] };
    conversations.unshift(current);
  }
  const conversation = current;
  // What was stopped or failed before is no turn of the model's.
  const history = conversation.messages.filter((message) => !message.failed);
  conversation.messages.push({ role: "user", content: text });
  saveConversations(conversations);
  showConversation();

  const messages = [...history, { role: "user", content: text }].map(({ role, content, reasoning_content }) =>
    reasoning_content ? { role, content, reasoning_content } : { role, content });
  const answer = { role: "assistant", content: "", reasoning_content: "" };
  const turn = addTurn(answer);
  await receive(messages, answer, turn);
  conversation.messages.push(answer);
  saveConversations(conversations);
  showAnswer(turn, answer, false);
}

async function receive(messages, answer, turn) {
  const controller = new AbortController();
  running = controller;
  showRunning(true);
  const meter = new Meter();
  let drawn = true;
  const draw = () => {
    drawn = true;
    if (!turn.isConnected) return; // another conversation is shown
    const follow = $("log").scrollHeight - $("log").scrollTop - $("log").clientHeight < 60;
    showAnswer(turn, answer, true);
    if (follow) $("log").scrollTop = $("log").scrollHeight;
  };
  try {
    const result = await chat(requestFor(messages), {
      key: $("key").value,
      signal: controller.signal,
      onComment: (text) => say(text),
      onDelta: (delta) => {
        if (!delta.content && !delta.reasoning_content) return;
        answer.content += delta.content ?? "";
        answer.reasoning_content += delta.reasoning_content ?? "";
        meter.count();
        if (drawn) requestAnimationFrame(draw); // once for all that comes until then
        drawn = false;
      },
    });
    if (result.finish_reason === "length") answer.note = "[cut: the longest answer is reached]";
    say("The answer is complete.");
  } catch (error) {
    if (controller.signal.aborted) {
      answer.note = "[stopped]";
      say("Stopped.");
    } else {
      answer.failed = true;
      answer.note = error.message;
      say("That went wrong.");
      if (error instanceof ApiError && error.status === 401) askForKey();
    }
  } finally {
    meter.end();
    if (running === controller) running = null;
    showRunning(running !== null);
  }
}

function showRunning(on) {
  $("log").setAttribute("aria-busy", String(on)); // read out when it is complete, not letter by letter
  $("stop").hidden = !on;
  $("send").hidden = on;
  if (on) say("Reading the question …");
}

function say(text) {
  $("status").textContent = text;
}

// Figures -------------------------------------------------------------------------------------------------------------

// Tokens a second, share of experts found in memory, and memory, while an answer comes.
class Meter {
  constructor() {
    this.pieces = 0;
    this.timer = setInterval(() => this.show(), 1000);
    this.before = null;
    this.show();
  }

  count() {
    this.pieces++;
    this.last = performance.now();
    this.first ??= this.last;
    if (this.pieces === 1) say("Answering …");
  }

  async show() {
    // The first piece comes out of the prefill.
    const seconds = (this.last - this.first) / 1000;
    if (seconds > 0) $("rate").textContent = `${((this.pieces - 1) / seconds).toFixed(1)} tok/s`;
    try {
      const { engine } = await get("/stats", $("key").value);
      this.before ??= engine;
      showMemory(engine);
      const hits = engine.hits - this.before.hits;
      const asked = hits + engine.misses - this.before.misses;
      if (asked > 0) $("hits").textContent = `${((100 * hits) / asked).toFixed(1)}% hits`;
    } catch {
      // the next second may bring them
    }
  }

  end() {
    clearInterval(this.timer);
    this.show();
  }
}

function showMemory(engine) {
  $("memory").textContent = `${(engine.resident_set_bytes / 1e9).toFixed(2)} GB`;
}

// The server ----------------------------------------------------------------------------------------------------------

async function findModel() {
  try {
    model = (await get("/v1/models", $("key").value)).data[0].id;
    showMemory((await get("/stats", $("key").value)).engine);
    document.title = `${model} · Swiftlet`;
    say(`${model} is ready.`);
  } catch (error) {
    say(error.message);
    if (error.status === 401) askForKey();
  }
}

function askForKey() {
  $("settings").open = true;
  $("key").focus();
}

// Events --------------------------------------------------------------------------------------------------------------

async function submit() {
  const text = $("question").value.trim();
  if (!text || running) return;
  $("question").value = "";
  fit();
  if (!model) await findModel();
  await ask(text);
}

// The field grows with the question.
function fit() {
  $("question").style.height = "auto";
  $("question").style.height = `${$("question").scrollHeight + 2}px`;
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
$("question").addEventListener("input", fit);
$("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
$("stop").addEventListener("click", () => running?.abort());
$("new").addEventListener("click", () => choose(null));
$("menu").addEventListener("click", () => showMenu(!$("side").classList.contains("shown")));
$("log").addEventListener("click", async (event) => {
  if (!event.target.matches(".code > button")) return;
  try {
    await navigator.clipboard.writeText(event.target.parentElement.querySelector("code").textContent);
    say("Copied.");
  } catch {
    say("The browser does not let the page copy.");
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if ($("settings").open) {
    $("settings").open = false;
    $("settings").querySelector("summary").focus();
  } else {
    running?.abort();
  }
});

setUpSettings();
showConversation();
findModel();
$("question").focus();
