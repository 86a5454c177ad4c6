"""Checks a page of `belljar tape view` in headless Chromium.

Usage: browser.py run|two|hostile|long PAGE. The variables AXE (axe.min.js) and SHOTS (a folder for screenshots) must be set;
selenium must be importable. A check that fails is an AssertionError.
"""

import base64
import json
import os
import pathlib
import shutil
import sys
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.service import Service

AXE = pathlib.Path(os.environ["AXE"]).read_text(encoding="utf-8")
SHOTS = pathlib.Path(os.environ["SHOTS"])

# No assertion is about elapsed time: this only ends a test that would wait for ever.
WAIT_S = 60


class Page:
    def __init__(self, name, path):
        self.name = name
        self.is_checked = False
        self.path = pathlib.Path(path).resolve()
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or shutil.which("google-chrome")
        for option in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]:
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(WAIT_S)
        self.size(1400, 900)
        self.scheme("light")

    def size(self, width, height):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def open(self, fragment=""):
        self.driver.get("about:blank")
        self.driver.get(self.path.as_uri() + fragment)
        self.until(lambda: self.js("return document.documentElement.dataset.ready") == "true")

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def until(self, condition):
        end = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end, f"{self.name}: {self.text('body')[:2000]}"
            time.sleep(0.02)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def shows(self, selector, text):
        self.until(lambda: text in self.text(selector))

    def press(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def tab(self, name):
        self.find(f"#tab-{name}").click()

    def shot(self, name):
        # What is drawn in the next frame is in it.
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        self.driver.save_screenshot(str(SHOTS / f"{self.name}-{name}.png"))

    def accessible(self, name):
        """No serious defect in the view, in light and in dark; nothing is wider than the window."""
        for scheme in ["light", "dark"]:
            self.scheme(scheme)
            self.shot(f"{name}-{scheme}")
            self.js(AXE)
            found = self.driver.execute_async_script("axe.run({resultTypes: ['violations']}).then(arguments[0])")
            serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
            nodes = [(each["id"], each["help"], [(node["html"][:200], node.get("failureSummary")) for node in each["nodes"][:3]]) for each in serious]
            assert not serious, f"{self.name}, {name}, {scheme}: {json.dumps(nodes, indent=1)}"
        self.scheme("light")
        wide = self.js("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{name} is {wide} pixels wider than the window"

    def quiet(self):
        """The page asked for nothing but itself, and the browser found nothing wrong."""
        logs = [log["message"] for log in self.driver.get_log("browser")]
        assert not logs, logs
        asked = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = {each["params"]["request"]["url"] for each in asked if each["method"] == "Network.requestWillBeSent"}
        foreign = [url for url in urls if url != "about:blank" and not url.startswith(self.path.as_uri())]
        assert not foreign, foreign

    def close(self):
        if not self.is_checked:
            self.quiet()
        self.driver.quit()


def rows(page, selector="#record-list .row"):
    """The rows in view, as texts with a blank between cells."""
    script = "return [...document.querySelectorAll(arguments[0])].map((row) => [...row.children].map((cell) => cell.textContent.trim()).join(' '))"
    return page.js(script, selector)


def run(page):
    page.open()
    assert page.text("#facts").startswith("exit 0"), page.text("#facts")
    assert "3 s of virtual time" in page.text("#facts")
    commands = " | ".join(rows(page, "#process-list .row"))
    for command in ["sort in.txt", "uniq -c", "cat counts.txt missing.txt"]:
        assert command in commands, commands
    assert "exit 1" in commands, commands

    # Who read what: the tape tells whose turn it was.
    page.until(lambda: any("file_read" in row for row in rows(page)))
    read = next(row for row in rows(page) if "file_read" in row and "in.txt" in row)
    assert " 2 sort " in read, read
    page.accessible("records")

    # A record has an address.
    page.open("#record=8")
    page.shows("#detail", "Record 8")
    page.shows("#detail", "in.txt")
    selected = page.js("return document.querySelector('#record-list .row[aria-selected=true] .seq').textContent")
    assert selected == "8", selected
    if page.js("return belljar.tape.summary.annotations.length") > 0:
        page.shows("#detail", "here <b>it</b> fails")
    page.shows("#detail pre.text", "b\na\nb\n")
    page.accessible("record")

    # A process: what it read and wrote, and its records alone.
    page.js("[...document.querySelectorAll('#process-list .row')].find((row) => row.querySelector('.command')?.textContent === 'sort in.txt').click()")
    page.shows("#detail", "Process 2 sort")
    page.shows("#detail", "Read (1)/worktree/in.txt")
    page.until(lambda: all(" 2 sort " in row for row in rows(page)))
    page.accessible("process")
    page.press("a")
    page.until(lambda: not page.all(".chip"))

    page.tab("files")
    page.until(lambda: len(rows(page, "#file-list .row")) == 2)
    page.shows(".file-detail .diff", "+      1 a\n")
    page.js("[...document.querySelectorAll('#file-list .row')].find((row) => row.textContent.includes('old.txt')).click()")
    page.shows(".file-detail .diff", "-old\n")
    page.accessible("files")
    page.js("[...document.querySelectorAll('#panel-files button')].find((button) => button.textContent === 'Not found').click()")
    page.until(lambda: any("missing.txt" in row for row in rows(page, "#file-list .row")))

    page.tab("output")
    page.shows("#panel-output .output", "      1 a\n      2 b\n")
    page.shows("#panel-output .output", "missing.txt: No such file")
    assert "No such" in "".join(page.js("return [...document.querySelectorAll('.output .fd2')].map((piece) => piece.textContent)"))
    page.accessible("output")
    page.tab("run")
    for text in ["memory_bytes_max4 GiB", "Ended by a limitno", "/worktree", "process_spawn"]:
        page.shows("#panel-run", text)
    page.accessible("run")
    page.tab("annotations")
    page.accessible("annotations")

    # Keys alone: search, move in the list, views, help, theme.
    page.press("/")
    page.press("MISSING.TXT")
    # The list may still show what was found with the first letters.
    page.until(lambda: page.text("#search-state").endswith(("record", "records")))
    page.until(lambda: (found := rows(page)) and all("missing.txt" in row for row in found))
    page.press(Keys.ESCAPE)
    page.press("n")
    page.shows("#detail h2", "Record ")
    first = page.text("#detail h2")
    page.press("n")
    page.until(lambda: page.text("#detail h2") != first)
    page.find("#search").send_keys(Keys.CONTROL + "a", Keys.DELETE)
    page.until(lambda: page.text("#search-state") == "")
    page.find("#record-list").click()
    page.press(Keys.END)
    page.shows("#detail h2", f"Record {page.js('return belljar.tape.length') - 1} ")
    page.press(Keys.HOME, Keys.ARROW_DOWN, "j")
    page.shows("#detail h2", "Record 2 ")
    assert page.find("#record-list").get_attribute("aria-activedescendant") == "record-list-2"
    page.press("2")
    assert page.find("#tab-files").get_attribute("aria-selected") == "true"
    page.press("?")
    assert page.js("return document.getElementById('keys').open")
    page.accessible("keys")
    page.press(Keys.ESCAPE)
    page.find("#process-list").click()
    for key in ["+", "+", ".", ",", "-", "0", "z"]:
        page.press(key)
    before = page.js("return getComputedStyle(document.body).backgroundColor")
    page.find("#theme").click()
    page.find("#theme").click()
    assert page.js("return getComputedStyle(document.body).backgroundColor") != before
    page.shot("theme-dark")

    page.size(420, 800)
    page.open()
    page.accessible("narrow")
    page.size(1400, 900)
    page.open()
    printed = page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"]
    (SHOTS / f"{page.name}.pdf").write_bytes(base64.b64decode(printed))
    for text in ["+      1 a\n", "sort in.txt", "memory_bytes_max", "file_read"]:
        assert text in page.text("#print"), text


def two(page):
    page.open()
    page.shows("#panel-compare .facts", "differences")
    page.shows("#detail", "Differs")
    changed = rows(page, "#pair-list .pair.changed")
    assert "in.txt" in changed[0], changed
    page.accessible("compare")
    # The first difference is a length; the next one is the content, as a diff.
    page.press("n")
    page.until(lambda: page.all("#detail .diff"))
    diffs = [page.text("#detail .diff")]
    assert "+c\n" in diffs[0], diffs
    assert page.text(".differences .removed mark"), page.text("#detail")
    page.press("n")
    page.until(lambda: page.text("#detail .diff") != diffs[0])
    assert "+      1 c\n" in page.text("#detail .diff"), page.text("#detail .diff")
    page.accessible("content")
    page.press("p")
    page.until(lambda: page.text("#detail .diff") == diffs[0])
    # Equal records are folded, and unfold.
    fold = page.js("return document.querySelectorAll('button.fold').length")
    page.js("document.querySelector('#panel-compare input').click()")
    page.until(lambda: not page.all("button.fold"))
    assert len(rows(page, "#pair-list .pair")) > len(changed) or fold == 0
    # Each tape is shown alone as well, and has addresses of its own.
    page.find("[data-tape=b]").click()
    page.tab("records")
    page.until(lambda: page.text("#title") == "other.tape")
    page.open("#tape=b&record=8")
    page.shows("#title", "other.tape")
    page.shows("#detail pre.text", "b\na\nb\nc\n")


def hostile(page):
    page.open()
    elements = page.js("return document.querySelectorAll('script').length")
    policy = page.find("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert policy.startswith("default-src 'none'; script-src 'sha256-"), policy
    for view in ["compare", "records", "files", "output", "run", "annotations"]:
        page.tab(view)
        page.shot(view)
        page.js(f"return belljar.views.{view}.list?.drawNow()")
    page.accessible("hostile")
    # Each difference, with its details.
    page.tab("compare")
    page.shows("#panel-compare .facts", "differences")
    seen, shown = set(), set()
    while (at := page.js("return belljar.views.compare.list.selected")) not in seen:
        seen.add(at)
        page.js("belljar.views.compare.step(1); belljar.views.compare.list.drawNow()")
        page.driver.execute_async_script("const view = belljar.views.compare; view.select(view.list.selected).then(arguments[0])")
        shown.add(page.text("#detail h2").split()[0])
    assert len(seen) > 100 and "Differs" in shown, (len(seen), shown)
    page.accessible("hostile-differences")
    length = page.js("return belljar.tape.length")
    for at in range(length):
        page.js("belljar.select(arguments[0])", at)
        if at % 50 == 0:
            page.shows("#detail h2", f"Record {at} ")
    for n in range(page.js("return belljar.tape.processes.length")):
        page.js("belljar.goToProcess(arguments[0])", n)
    page.js("belljar.setProcess(null)")
    page.tab("files")
    page.js("belljar.views.files.setFilter('all')")
    for path in page.js("return belljar.views.files.rows"):
        page.driver.execute_async_script("belljar.views.files.choose(arguments[0]).then(arguments[1])", path)
    for query in ["<script>", "\"", "\\", "${", "owned", "\u202e"]:
        page.js("belljar.views.records.setQuery(arguments[0])", query)
        page.until(lambda: page.text("#search-state").endswith(("record", "records")))
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    assert page.js("return typeof globalThis.owned") == "undefined"
    # What a tape has are texts: no element, no address and no attribute is made of them.
    assert page.js("return document.querySelectorAll('script').length") == elements
    for name in ["iframe", "img", "svg", "object", "embed", "base", "style ~ style"]:
        assert not page.all(name), name
    assert page.js("return document.forms.length") == 1
    hrefs = page.js("return [...document.querySelectorAll('a')].map((a) => a.getAttribute('href')).filter((href) => !/^#(tape=[ab]&)?record=\\d+$/.test(href))")
    assert not hrefs, hrefs
    handlers = page.js("return [...document.querySelectorAll('*')].flatMap((e) => e.getAttributeNames()).filter((name) => name.startsWith('on'))")
    assert not handlers, handlers
    # Characters that hide text, or turn it round, are spelled out.
    assert page.js("return /[\\u202e\\u200b\\u001b]/.test(document.body.innerText)") is False
    assert page.js("return /[\\u202e\\u2066]/.test(document.title)") is False
    page.quiet()
    # The policy holds where a way in is found: a script that is added does not run.
    page.js("const s = document.createElement('script'); s.textContent = 'globalThis.owned = 99'; document.body.append(s)")
    page.js("const d = document.createElement('div'); d.innerHTML = '<img src=x onerror=\"globalThis.owned = 98\">'; document.body.append(d)")
    refused = page.driver.execute_async_script("const done = arguments[0]; fetch('https://example.invalid/').then(() => done('sent'), () => done('refused'))")
    assert refused == "refused" and page.js("return typeof globalThis.owned") == "undefined"
    reports = [log["message"] for log in page.driver.get_log("browser")]
    page.is_checked = True
    assert len(reports) >= 3 and all("Content Security Policy" in report for report in reports), reports


def long(page):
    records = int(os.environ["RECORDS"])
    began = time.monotonic()
    page.open()
    took = time.monotonic() - began
    length = page.js("return belljar.tape.length")
    assert abs(length - records) <= 2, length
    page.shows("#record-list .row .says", "the machine is configured")
    # However long the list is, a few rows exist.
    assert page.js("return document.querySelectorAll('#record-list .row').length") < 100
    page.find("#record-list").click()
    page.press(Keys.END)
    page.shows("#record-list .row[aria-selected=true]", "exited with code 0")
    assert rows(page)[-1].startswith(f"{length - 1} "), rows(page)[-1]
    page.accessible("end")
    # The scroll bar reaches every part of the list, and the wheel each row.
    page.js("const host = document.getElementById('record-list'); host.scrollTop = host.scrollHeight / 2")
    page.until(lambda: abs(int(rows(page)[0].split()[0]) - length / 2) < length / 100 + 50)
    page.until(lambda: all("…" != row.split()[-1] for row in rows(page)))
    first = int(rows(page)[0].split()[0])
    page.js("document.getElementById('record-list').dispatchEvent(new WheelEvent('wheel', {deltaY: 110, cancelable: true, bubbles: true}))")
    if length * 22 > 15_000_000:
        page.until(lambda: int(rows(page)[0].split()[0]) == first + 5)
    page.press(Keys.HOME)
    page.until(lambda: rows(page)[0].startswith("0 "))
    began = time.monotonic()
    page.find("#search").send_keys("unit77.c:77:")
    page.until(lambda: page.text("#search-state") == "1 record")
    searched = time.monotonic() - began
    page.until(lambda: len(rows(page)) == 1 and "unit77.c:77:" in rows(page)[0])
    page.find("#search").send_keys(Keys.CONTROL + "a", Keys.DELETE)
    page.tab("files")
    page.js("belljar.views.files.setFilter('all')")
    page.until(lambda: len(rows(page, "#file-list .row")) > 5)
    page.tab("output")
    page.shows("#panel-output .output", "unit2.c:2: note")
    page.shot("output")
    print(f"{length} records: opened in {took:.2f} s, searched in {searched:.2f} s")


if __name__ == "__main__":
    check, path = sys.argv[1:]
    opened = Page(check, path)
    try:
        {"run": run, "two": two, "hostile": hostile, "long": long}[check](opened)
        opened.close()
    except BaseException:
        opened.driver.save_screenshot(str(SHOTS / f"{check}-failed.png"))
        opened.driver.quit()
        raise
