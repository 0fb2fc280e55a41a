// Conversations and settings, kept in this browser only.

const CONVERSATIONS = "swiftlet.conversations";
const SETTINGS = "swiftlet.settings";
const KEPT = 200;

function read(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    return false; // full, or not allowed
  }
}

// Latest first; each is {id, title, messages: [{role, content, reasoning_content?}]}.
export function loadConversations() {
  const found = read(CONVERSATIONS, []);
  return Array.isArray(found) ? found.filter((c) => c && c.id && Array.isArray(c.messages)) : [];
}

// When the browser has no more room, the oldest have to go.
export function saveConversations(conversations) {
  conversations.length = Math.min(conversations.length, KEPT);
  while (!write(CONVERSATIONS, conversations) && conversations.length > 1) conversations.pop();
}

export const loadSettings = () => read(SETTINGS, {});
export const saveSettings = (settings) => write(SETTINGS, settings);
