// Markdown to DOM nodes. Text only ever becomes text nodes, so whatever a model writes cannot become markup.

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const TABLE_RULE = /^\s*\|?(\s*:?-+:?\s*\|)+\s*:?-*:?\s*$/;
const MAX_DEPTH = 8;

// A fragment with the text rendered.
export function render(text) {
  const fragment = document.createDocumentFragment();
  blocks(text.split("\n"), fragment, 0);
  return fragment;
}

function element(name, parent, text) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function blocks(lines, parent, depth) {
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    let match;
    if (!line.trim()) {
      i++;
    } else if ((match = FENCE.exec(line))) {
      i = code(lines, i, match, parent);
    } else if ((match = HEADING.exec(line))) {
      // The page has a heading of its own: those of an answer come below it.
      inline(match[2], element(`h${Math.min(match[1].length + 1, 6)}`, parent));
      i++;
    } else if (RULE.test(line)) {
      element("hr", parent);
      i++;
    } else if (depth < MAX_DEPTH && QUOTE.test(line)) {
      const start = i;
      while (i < lines.length && QUOTE.test(lines[i])) i++;
      const inner = lines.slice(start, i).map((l) => l.replace(QUOTE, ""));
      blocks(inner, element("blockquote", parent), depth + 1);
    } else if (depth < MAX_DEPTH && ITEM.test(line)) {
      i = list(lines, i, parent, depth);
    } else if (line.includes("|") && i + 1 < lines.length && TABLE_RULE.test(lines[i + 1])) {
      i = table(lines, i, parent);
    } else {
      const start = i++;
      while (i < lines.length && lines[i].trim() && !startsBlock(lines[i])) i++;
      inline(lines.slice(start, i).join("\n"), element("p", parent));
    }
  }
}

function startsBlock(line) {
  return [FENCE, HEADING, RULE, QUOTE, ITEM].some((pattern) => pattern.test(line));
}

function code(lines, start, match, parent) {
  const end = new RegExp(`^ {0,3}${match[1][0]}{${match[1].length},}\\s*$`);
  let i = start + 1;
  while (i < lines.length && !end.test(lines[i])) i++;
  const box = element("div", parent);
  box.className = "code";
  const copy = element("button", box, "Copy");
  copy.type = "button";
  copy.setAttribute("aria-label", `Copy the code${match[2] ? ` (${match[2]})` : ""}`);
  const pre = element("pre", box);
  pre.tabIndex = 0; // it may have to be scrolled by keyboard
  element("code", pre, lines.slice(start + 1, i).join("\n"));
  return i + 1;
}

function list(lines, start, parent, depth) {
  const [, indent, mark] = ITEM.exec(lines[start]);
  const ordered = /\d/.test(mark);
  const node = element(ordered ? "ol" : "ul", parent);
  if (ordered) node.start = parseInt(mark, 10);
  let i = start;
  while (i < lines.length) {
    const match = ITEM.exec(lines[i]);
    if (!match || match[1].length !== indent.length || /\d/.test(match[2]) !== ordered) break;
    const inner = [match[3]];
    const width = match[1].length + match[2].length + 1;
    for (i++; i < lines.length; i++) {
      const deeper = lines[i].search(/\S/) > indent.length;
      const blank = !lines[i].trim() && i + 1 < lines.length && lines[i + 1].search(/\S/) > indent.length;
      if (!deeper && !blank) break;
      inner.push(lines[i].slice(Math.min(width, Math.max(lines[i].search(/\S/), 0))));
    }
    const item = element("li", node);
    // A short item has no paragraphs of its own.
    if (inner.length === 1) inline(inner[0], item);
    else blocks(inner, item, depth + 1);
    while (i + 1 < lines.length && !lines[i].trim() && ITEM.test(lines[i + 1])) i++;
  }
  return i;
}

function table(lines, start, parent) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const node = element("table", parent);
  const head = element("tr", element("thead", node));
  for (const cell of cells(lines[start])) inline(cell, element("th", head));
  const body = element("tbody", node);
  let i = start + 2;
  for (; i < lines.length && lines[i].includes("|"); i++) {
    const row = element("tr", body);
    for (const cell of cells(lines[i])) inline(cell, element("td", row));
  }
  return i;
}

const INLINE =
  /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*(?=\S)([\s\S]*?\S)\*\*|\*(?=\S)([^*\n]*?\S)\*|\b_(?=\S)([^_\n]*?\S)_\b|~~(?=\S)([^~\n]*?\S)~~|\[([^\]\n]*)\]\(([^()\s]*)\)|(https?:\/\/[^\s<>()"']*[^\s<>()"'.,;:!?])/;

function inline(text, parent, depth = 0) {
  while (text) {
    const match = depth < MAX_DEPTH ? INLINE.exec(text) : null;
    if (!match) {
      parent.append(text);
      return;
    }
    parent.append(text.slice(0, match.index));
    const [whole, ticks, raw, bold, star, underline, struck, label, target, address] = match;
    if (ticks) element("code", parent, raw.replace(/^ (.*\S.*) $/, "$1"));
    else if (bold !== undefined) inline(bold, element("strong", parent), depth + 1);
    else if (star !== undefined) inline(star, element("em", parent), depth + 1);
    else if (underline !== undefined) inline(underline, element("em", parent), depth + 1);
    else if (struck !== undefined) inline(struck, element("del", parent), depth + 1);
    else link(address ?? target, address ?? label, whole, parent, depth);
    text = text.slice(match.index + whole.length);
  }
}

// Links lead to web and mail addresses; anything else ("javascript:" for one) stays text.
function link(target, label, whole, parent, depth) {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) {
    parent.append(whole);
    return;
  }
  const node = element("a", parent);
  node.href = target;
  node.target = "_blank";
  node.rel = "noopener noreferrer nofollow";
  if (label === target) node.append(label);
  else inline(label, node, depth + 1);
}
