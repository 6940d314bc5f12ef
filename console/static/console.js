// Small helps for pages that work without them: copying commands, the slider, and the charts.
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
    range.addEventListener("input", () => { shown.textContent = range.value; });
  }
}

// The menu is open where there is room for it.
function menu() {
  const side = document.getElementById("side");
  if (!side) return;
  const wide = window.matchMedia("(min-width: 60rem)");
  const follow = () => { side.open = wide.matches; };
  wide.addEventListener("change", follow);
  follow();
}

const POINTS_MAX = 720;
const COLOURS = ["--line-1", "--line-2", "--line-3"];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function drawn(box, hour) {
  const names = box.dataset.series.split(",");
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--border") }, ticks: { stroke: colour("--border") } };
  const options = {
    width: box.clientWidth, height: 220,
    // As all times of the console.
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"), axes: [axis, { ...axis, size: 60 }],
    scales: { x: { range: (plot, low, high) => [Math.min(low, high - 60), high] }, y: { range: (plot, low, high) => [0, Math.max(high, 1)] } },
    series: [{}, ...names.map((name, index) => ({
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
  if (!answer.ok) return;
  const hour = await answer.json();
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

document.addEventListener("DOMContentLoaded", () => {
  copyButtons(document);
  slider();
  menu();
  charts();
});
