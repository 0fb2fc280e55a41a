"""The chat page in a real browser: Chromium without a window."""

import os
import shutil
import time

import pytest

import fake_core
import swiftlet
from http_server import serving, wait_until

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; set CHROMIUM to its path")
IM_END = 450


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def engine(monkeypatch, next_folder):
    monkeypatch.setattr(swiftlet._core, "Engine", fake_core.FakeEngine)
    monkeypatch.setattr(swiftlet._core, "check_container", lambda path: None)
    monkeypatch.setattr(fake_core.FakeEngine, "context", 4096)
    monkeypatch.setattr(fake_core.FakeEngine, "pause", fake_core.FakeEngine.__dict__["pause"])
    (next_folder / "manifest.json").write_text("{}")
    with swiftlet.Engine(next_folder) as engine:
        engine._model.stats = {"hits": 90, "misses": 10, "resident_set_bytes": 2_500_000_000}
        yield engine


def say(engine, text):
    engine._model.script = [*engine.tokenizer.encode(text), IM_END]


@pytest.fixture
def open_page(browser):
    """Opens the page at an address; errors in it, and requests to elsewhere, fail the test."""
    context = browser.new_context()
    problems = []

    def open_page(address):
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: problems.append(request.url) if address not in request.url else None)
        page.goto(address)
        return page

    yield open_page
    context.close()
    assert [problem for problem in problems if "401" not in problem and not problem.startswith("data:")] == []


def ask(page, text):
    page.get_by_label("Your message").fill(text)
    page.get_by_label("Your message").press("Enter")


def status(page, text):
    sync_api.expect(page.get_by_role("status")).to_have_text(text)


ANSWER = """# Title

Some **bold** and `code`, a [link](https://example.org/a) and [none](javascript:alert(1)).

- one
- two
  - deeper

```python
print("<b>")
```

| a | b |
|---|---|
| 1 | <script>document.title = "owned"</script> |

<img src=x onerror="document.title='owned'"> 漢字 👩‍👩‍👧"""


def test_an_answer_is_shown_as_markdown_and_nothing_else(engine, open_page):
    say(engine, ANSWER)
    with serving(engine) as address:
        page = open_page(address)
        status(page, "demo is ready.")
        ask(page, "Show me <i>everything</i>")
        status(page, "The answer is complete.")
        log = page.get_by_role("log")
        assert log.get_by_label("You").inner_text() == "Show me <i>everything</i>"
        answer = log.get_by_label("The model")
        assert answer.locator("h2").inner_text() == "Title"
        assert answer.locator("strong").inner_text() == "bold"
        assert answer.locator("pre code").inner_text() == 'print("<b>")'
        assert answer.locator("li li").inner_text() == "deeper"
        assert answer.locator("td").nth(1).inner_text() == '<script>document.title = "owned"</script>'
        assert answer.locator("a").get_attribute("href") == "https://example.org/a"
        assert answer.locator("a").count() == 1 and answer.locator("img, script, b").count() == 0
        assert "漢字 👩‍👩‍👧" in answer.inner_text() and "[none](javascript:alert(1))" in answer.inner_text()
        assert page.title() == "demo · Swiftlet"
        sync_api.expect(page.locator("#memory")).to_have_text("2.50 GB")


def test_conversations_are_kept_and_continued(engine, open_page):
    say(engine, "First answer")
    with serving(engine) as address:
        page = open_page(address)
        ask(page, "First question")
        status(page, "The answer is complete.")
        ask(page, "And then?")
        status(page, "The answer is complete.")
        sync_api.expect(page.get_by_role("log").get_by_label("The model")).to_have_count(2)
        page.get_by_role("button", name="New conversation").click()
        ask(page, "Another one")
        status(page, "The answer is complete.")
        page.reload()
        names = page.locator("nav .open").all_inner_texts()
        assert names == ["Another one", "First question"]
        page.get_by_role("button", name="First question", exact=True).click()
        assert page.get_by_role("log").get_by_label("You").all_inner_texts() == ["First question", "And then?"]
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Delete the conversation “First question”").click()
        assert page.locator("nav .open").all_inner_texts() == ["Another one"]


def test_thoughts_are_folded(engine, open_page):
    say(engine, "Hm, <b>\n</think>\n\nHello")
    with serving(engine) as address:
        page = open_page(address)
        page.get_by_text("Settings").click()
        page.get_by_label("Thinking").select_option("on")
        page.keyboard.press("Escape")
        ask(page, "Hi")
        status(page, "The answer is complete.")
        thoughts = page.get_by_role("log").locator("details")
        assert thoughts.get_attribute("open") is None
        thoughts.locator("summary").click()
        assert thoughts.locator("div").inner_text() == "Hm, <b>"
        assert page.get_by_role("log").locator(".content").inner_text() == "Hello"


@pytest.mark.parametrize("how", ["button", "Escape"])
def test_stopping(engine, open_page, how):
    engine._model.script = engine.tokenizer.encode("word ") * 2000
    fake_core.FakeEngine.pause = staticmethod(lambda phase: time.sleep(0.01))
    with serving(engine) as address:
        page = open_page(address)
        ask(page, "Go on")
        sync_api.expect(page.get_by_role("log").get_by_label("The model")).to_contain_text("word word")
        sync_api.expect(page.locator("#rate")).to_contain_text("tok/s")
        assert page.get_by_role("log").get_attribute("aria-busy") == "true"
        if how == "button":
            page.get_by_role("button", name="Stop").click()
        else:
            page.keyboard.press("Escape")
        status(page, "Stopped.")
        wait_until(lambda: page.evaluate("fetch('/stats').then(r => r.json()).then(s => s.running)") == 0)
        sync_api.expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_a_key_is_asked_for(engine, open_page):
    say(engine, "Hello")
    with serving(engine, api_keys=("secret",)) as address:
        page = open_page(address)
        page.get_by_label("API key").fill("secret")
        page.keyboard.press("Escape")
        status(page, "demo is ready.")
        ask(page, "Hi")
        status(page, "The answer is complete.")


def test_everything_can_be_reached_by_keyboard_and_has_a_name(engine, open_page):
    with serving(engine) as address:
        page = open_page(address)
        sync_api.expect(page.get_by_label("Your message")).to_be_focused()
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll("button, input, select, textarea, summary")]
                 .filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label") || node.labels?.length))
                 .map((node) => node.outerHTML)"""
        )
        assert unnamed == []
        for scheme, dark in (("light", False), ("dark", True)):
            page.emulate_media(color_scheme=scheme)
            colours = page.evaluate("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")
            assert (sum(map(int, colours)) < 300) == dark
