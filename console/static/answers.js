// The chart of an answer to a query: drawn from the table on the page, which has the same numbers.
"use strict";

const DASHES = [[], [], [], [6, 4], [6, 4], [6, 4]];
const LABEL_CHARS = 14;

function numberOf(cell) {
  return cell.hasAttribute("data-null") ? null : Number(cell.textContent);
}

// Seconds since 1970; a time without a zone is UTC, as all times of the console.
function secondsIn(cell) {
  const text = cell.textContent.trim();
  const zoned = /(Z|[+-]\d\d:?\d\d)$/.test(text) || !text.includes("T");
  return Date.parse(zoned ? text : `${text}Z`) / 1000;
}

function answerOf(table, most) {
  const kinds = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.kind);
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.firstChild.textContent);
  const series = kinds.map((kind, index) => index).filter((index) => index > 0 && kinds[index] === "number").slice(0, most);
  const read = kinds[0] === "time" ? secondsIn : numberOf;
  let rows = [...table.tBodies[0].rows].map((row) => row.cells);
  if (kinds[0] !== "text") {
    rows = rows.filter((cells) => Number.isFinite(read(cells[0])) && !cells[0].hasAttribute("data-null"));
    rows.sort((one, other) => read(one[0]) - read(other[0]));
  }
  return {
    kind: kinds[0], names: series.map((index) => names[index]),
    labels: rows.map((cells) => cells[0].textContent),
    columns: [
      rows.map((cells, index) => (kinds[0] === "text" ? index : read(cells[0]))),
      ...series.map((index) => rows.map((cells) => numberOf(cells[index]))),
    ],
  };
}

function shortened(text) {
  return text.length > LABEL_CHARS ? `${text.slice(0, LABEL_CHARS - 1)}…` : text;
}

// As other times of the console; of days without hours, the days.
function moment(time, times) {
  const text = new Date(time * 1000).toISOString();
  if (times.every((each) => each % 86400 === 0)) return text.slice(0, 10);
  return times.at(-1) - times[0] < 86400 ? clock(time, times) : text.slice(5, 16).replace("T", " ");
}

// Bars of several columns stand in each other, the first one widest.
function answerOptions(answer, isBars, width) {
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--border") }, ticks: { stroke: colour("--border") } };
  const below = { ...axis };
  if (answer.kind === "text") {
    below.values = (plot, splits) => splits.map((each) => (Number.isInteger(each) ? shortened(answer.labels[each] ?? "") : ""));
    below.space = 90;
  }
  if (answer.kind === "time") {
    below.values = (plot, times) => times.map((time) => moment(time, times));
    below.space = 110;
  }
  const edge = isBars && answer.columns[0].length > 1
    ? (answer.columns[0].at(-1) - answer.columns[0][0]) / (answer.columns[0].length - 1) / 2 : 0;
  return {
    width, height: 260, axes: [below, { ...axis, size: 70, values: compact }],
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: {
      x: { time: answer.kind === "time", range: (plot, low, high) => [low - edge, high + edge] },
      y: { range: roomy },
    },
    series: [
      { value: (plot, value, index, at) => (at === null || value === null ? "" : answer.labels[at]) },
      ...answer.names.map((label, index) => ({
        label, stroke: colour(COLOURS[index % COLOURS.length]), dash: DASHES[index], width: 2,
        ...(isBars ? { fill: colour(COLOURS[index % COLOURS.length]), paths: uPlot.paths.bars({ size: [0.8 * (1 - index / (answer.names.length + 1)), 80] }) } : {}),
        points: { show: !isBars && answer.columns[0].length < 60 },
      })),
    ],
  };
}

function drawAnswer() {
  const box = document.querySelector("[data-chart]");
  if (!box) return;
  const answer = answerOf(document.getElementById(box.dataset.of), Number(box.dataset.most));
  if (answer.columns[0].length < 2) return;
  box.closest("figure").hidden = false;
  const options = answerOptions(answer, box.dataset.chart === "bars", box.clientWidth);
  const plot = new uPlot(options, answer.columns, box);
  new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: 260 })).observe(box);
}

document.addEventListener("DOMContentLoaded", drawAnswer);
