// Small helps for pages that work without them: copying commands, the slider, the charts, and ages.
"use strict";

function copyButtons(root) {
  for (const button of root.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}

function slider() {
  const range = document.getElementById("moment");
  const shown = document.getElementById("moment-shown");
  if (range && shown) {
    const say = () => {
      const time = new Date(Number(range.value)).toISOString().slice(0, 19).replace("T", " ");
      range.setAttribute("aria-valuetext", time);
      return time;
    };
    range.addEventListener("input", () => { shown.textContent = say(); });
    say();
  }
}

const POINTS_MAX = 720;
const COLOURS = ["--line-1", "--line-2", "--line-4", "--line-3"];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const COMPACT = new Intl.NumberFormat("en", { notation: "compact" });

function compact(plot, numbers) {
  return numbers.map((number) => COMPACT.format(number));
}

// The range of an axis with zero: round at its ends, so that no line is drawn at the edge.
function roomy(plot, low, high) {
  const least = Math.min(low ?? 0, 0);
  return uPlot.rangeNum(least, Math.max(high ?? 0, least + 1), {
    min: { pad: least < 0 ? 0.1 : 0, soft: 0, mode: 1 }, max: { pad: 0.1, soft: 0, mode: 1 },
  });
}

function clock(time, times) {
  const text = new Date(time * 1000).toISOString();
  return text.slice(11, times.some((each) => each % 60) ? 19 : 16);
}

function drawn(box, hour) {
  const names = box.dataset.series.split(",");
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--border") }, ticks: { stroke: colour("--border") } };
  const options = {
    width: box.clientWidth, height: 220,
    // As all times of the console.
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    // Labels keep apart in the narrowest window.
    axes: [
      { ...axis, space: 90, values: (plot, times) => times.map((time) => clock(time, times)) },
      { ...axis, size: 60, values: compact },
    ],
    scales: { x: { range: (plot, low, high) => [Math.min(low, high - 60), high] }, y: { range: roomy } },
    series: [{ value: (plot, time) => (time === null ? "" : clock(time, [time])) }, ...names.map((name, index) => ({
      label: name.replaceAll("_", " "), stroke: colour(COLOURS[index]), width: 2,
      points: { show: false },
    }))],
  };
  const plot = new uPlot(options, [hour.time, ...names.map((name) => hour[name])], box);
  new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: 220 })).observe(box);
  return { plot, names };
}

async function charts() {
  const root = document.querySelector("[data-hour]");
  if (!root) return;
  const answer = await fetch(root.dataset.hour);
  const note = document.getElementById("growth-note");
  if (!answer.ok) {
    if (note) note.textContent = `The journal could not be counted (status ${answer.status}).`;
    return;
  }
  const hour = await answer.json();
  if (note) note.textContent = hour.note;
  const plots = [...root.querySelectorAll(".chart")].map((box) => drawn(box, hour));
  document.body.addEventListener("htmx:sseMessage", (message) => {
    if (message.detail.type !== "sample") return;
    add(hour, JSON.parse(message.detail.data));
    for (const { plot, names } of plots) {
      plot.setData([hour.time, ...names.map((name) => hour[name])]);
    }
  });
}

function add(hour, figures) {
  hour.time.push(Date.now() / 1000);
  for (const [name, value] of Object.entries(figures)) {
    if (hour[name]) hour[name].push(value);
  }
  for (const column of Object.values(hour)) {
    if (column.length > POINTS_MAX) column.shift();
  }
}

// Figures grow old when the console does not send newer ones, and say so.
const OLD_SECONDS = 20;
const first = new WeakMap();

function ages() {
  for (const each of document.querySelectorAll("[data-age]")) {
    if (!first.has(each)) first.set(each, Date.now());
    const age = Math.round(Number(each.dataset.age) + (Date.now() - first.get(each)) / 1000);
    each.textContent = `, ${age} s ago`;
    each.parentElement.classList.toggle("wrong", age > OLD_SECONDS);
  }
}

const RENEW_MS = 5000;
const RENEW_MS_MAX = 60000;

// Parts of a page that renew themselves while it is seen, and while its switch is on.
function renewal() {
  const button = document.querySelector("[data-renewal]");
  if (!button) return;
  let on = localStorage.getItem("renewal") !== "off";
  const refused = document.querySelector("[data-refused]");
  let pause = RENEW_MS;
  let timer = null;
  const show = () => {
    button.setAttribute("aria-pressed", String(on));
  };
  const wait = () => {
    clearTimeout(timer);
    if (on && !document.hidden) timer = setTimeout(renew, pause);
  };
  const renew = async () => {
    let trouble = "";
    try {
      const answer = await fetch(location.href, { headers: { "x-renews": "yes" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const entry = entryOf(answer);
      if (entry) trouble = OVER;
      if (entry) warn(OVER, entry);
      else if (answer.ok && refused) location.reload();
      else if (answer.ok) on = replaced(page) && on;
      else trouble = page.querySelector("[role=alert]")?.textContent || `status ${answer.status}`;
    } catch {
      trouble = "the console does not answer";
    }
    pause = trouble ? Math.min(2 * pause, RENEW_MS_MAX) : RENEW_MS;
    if (trouble && refused && trouble !== OVER) refused.textContent = trouble;
    else if (trouble && trouble !== OVER) warn(trouble);
    show();
    wait();
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    on = !on;
    localStorage.setItem("renewal", on ? "on" : "off");
    show();
    wait();
  });
  document.addEventListener("visibilitychange", wait);
  show();
  wait();
}

const OVER = "your session is over";

// The page of the login, if that is what the console answered with.
function entryOf(answer) {
  return answer.redirected && new URL(answer.url).pathname === "/login" ? answer.url : "";
}

// Streams of figures that come again and again are open while the page is seen: a browser has six
// connections to a console, whatever tabs it has.
class Stream {
  onerror = null;
  onopen = null;
  #heard = [];
  #source = null;
  #isOver = false;
  #look = () => this.#follow();

  constructor(url) {
    this.url = url;
    document.addEventListener("visibilitychange", this.#look);
    this.#follow();
  }

  get readyState() {
    if (this.#isOver) return EventSource.CLOSED;
    return this.#source ? this.#source.readyState : EventSource.CONNECTING;
  }

  #follow() {
    if (document.hidden) {
      this.#source?.close();
      this.#source = null;
    } else if (!this.#source) {
      const source = this.#source = new EventSource(this.url, { withCredentials: true });
      source.onopen = (event) => this.onopen?.(event);
      source.onerror = (event) => {
        const isOver = source.readyState === EventSource.CLOSED;
        this.onerror?.(event);
        // Another stream follows.
        if (isOver) this.close();
      };
      for (const [type, action] of this.#heard) source.addEventListener(type, action);
    }
  }

  addEventListener(type, action) {
    this.#heard.push([type, action]);
    this.#source?.addEventListener(type, action);
  }

  removeEventListener(type, action) {
    this.#heard = this.#heard.filter((each) => each[0] !== type || each[1] !== action);
    this.#source?.removeEventListener(type, action);
  }

  close() {
    this.#isOver = true;
    document.removeEventListener("visibilitychange", this.#look);
    this.#source?.close();
  }
}

htmx.createEventSource = (url) =>
  url.split("?")[0].endsWith("/live") ? new Stream(url) : new EventSource(url);

// The overview hears nothing any more: says so if another login is needed, or a right is gone.
function streaming() {
  let isOver = false;
  const judge = async () => {
    const answer = await fetch(location.href, { headers: { "x-renews": "yes" } }).catch(() => null);
    const entry = answer ? entryOf(answer) : "";
    isOver = Boolean(answer && (entry || !answer.ok));
    if (entry) warn(OVER, entry);
    else if (isOver) warn(`the console refuses newer figures (status ${answer.status})`);
  };
  document.body.addEventListener("htmx:sseError", judge);
  document.body.addEventListener("htmx:sseClose", (closed) => {
    if (closed.detail.type === "message") judge();
  });
  document.body.addEventListener("htmx:sseMessage", () => {
    if (isOver) document.querySelector("[data-live=state]").replaceChildren();
    isOver = false;
  });
}

// A stream replaces parts of a page: what had the focus in one gets it again, so that nobody who
// uses the keyboard loses the place.
function keepFocus() {
  const name = (each) => each.getAttribute("href") ?? each.ariaLabel ?? each.textContent;
  const alike = (part, tag, named) =>
    [...part.querySelectorAll(tag)].filter((each) => name(each) === named);
  let held = null;
  document.body.addEventListener("htmx:sseBeforeMessage", ({ target }) => {
    const focus = document.activeElement;
    held = null;
    if (focus === target || !target.contains(focus)) return;
    const [tag, named] = [focus.tagName, name(focus)];
    held = { tag, named, place: alike(target, tag, named).indexOf(focus) };
  });
  document.body.addEventListener("htmx:sseMessage", ({ target }) => {
    if (!held) return;
    alike(target, held.tag, held.named)[held.place]?.focus({ preventScroll: true });
    held = null;
  });
}

// Says above the parts of a page why there are no newer ones; `entry` leads to the login.
function warn(trouble, entry) {
  const said = document.createElement("p");
  said.className = "wrong";
  said.setAttribute("role", "alert");
  said.textContent = `${trouble}. What is below is older.`;
  if (entry) {
    const link = document.createElement("a");
    link.href = entry;
    link.textContent = "Log in again";
    said.append(" ", link, ".");
    document.querySelector("[data-goes-on]")?.remove();
  }
  document.querySelector("[data-live=state]").replaceChildren(said);
}

// Replaces the parts of this page by those of a newer one; returns whether that has any: a page for
// the login has none. A part with the focus stays, so that nobody loses the place.
function replaced(page) {
  if (!page.querySelector("[data-live]")) return false;
  for (const part of document.querySelectorAll("[data-live]")) {
    const newer = page.querySelector(`[data-live="${part.dataset.live}"]`);
    const focus = document.activeElement;
    const is_held = part !== focus && part.contains(focus) && !focus.classList.contains("scroll");
    if (!newer || is_held) continue;
    const scroll = part.querySelector(".scroll");
    const place = scroll ? [scroll.scrollLeft, scroll === focus] : null;
    part.replaceChildren(...newer.childNodes);
    const again = part.querySelector(".scroll");
    if (place && again) {
      again.scrollLeft = place[0];
      if (place[1]) again.focus({ preventScroll: true });
    }
  }
  ages();
  edges();
  return true;
}

// A table with more columns behind its right edge has a shadow there.
function edges() {
  for (const box of document.querySelectorAll(".scroll")) {
    box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  renewal();
  streaming();
  keepFocus();
  copyButtons(document);
  slider();
  ages();
  setInterval(() => { ages(); edges(); }, 1000);
  edges();
  document.addEventListener("scroll", edges, true);
  window.addEventListener("resize", edges);
  charts();
});
