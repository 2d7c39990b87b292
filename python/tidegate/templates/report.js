"use strict";
// What the page does beyond showing: legends choose lines, a cursor reads values, the network steps through time.
// Nothing is computed before somebody asks for it, and nothing moves by itself.
const element = (tag, properties, ...inner) => { const made = Object.assign(document.createElement(tag), properties); made.append(...inner); return made; };
const number = value => { const size = Math.abs(value); return size && (size >= 1e6 || size < 1e-3) ? value.toExponential(2) : String(Number(value.toPrecision(4))); };

// The corners of a path of M, l, h and v, as numbers.
function corners(d) {
  const found = []; let x = 0, y = 0;
  for (const [, command, text] of d.matchAll(/([Mlhv])([^Mlhv]*)/g)) {
    const [first, second] = (text.match(/-?(?:\d+\.?\d*|\.\d+)/g) || []).map(Number);
    if (command === "M") { x = first; y = second; } else if (command === "l") { x += first; y += second; } else if (command === "h") { x += first; } else { y += first; }
    found.push([x, y]);
  }
  return found;
}
const valueAt = ([start, end, low, high, isLog], place) => { const share = (place - start) / (end - start); return isLog ? low * (high / low) ** share : low + share * (high - low); };

for (const figure of document.querySelectorAll("figure")) {
  const chart = figure.querySelector(".chart"), entries = [...figure.querySelectorAll(".legend li")];
  if (!chart) continue;
  const traces = entry => entry.dataset.traces.split(" ").map(order => chart.querySelector(`[data-t="${order}"]`));
  if (entries.length > 1) for (const entry of entries) {
    const button = element("button", { type: "button" }, ...entry.childNodes);
    button.setAttribute("aria-pressed", "true");
    button.onclick = () => { const isOn = button.getAttribute("aria-pressed") === "false"; button.setAttribute("aria-pressed", isOn); for (const trace of traces(entry)) trace.style.display = isOn ? "" : "none"; };
    entry.append(button);
  }
  if (chart.dataset.axes && chart.querySelector("g:not(.reference) > .line")) readValues(figure, chart, entries);
}

function readValues(figure, chart, entries) {
  const { x, panels } = JSON.parse(chart.dataset.axes);
  let lines = null, cursor = null, told = null;
  const begin = () => {
    lines = [...chart.querySelectorAll("g[data-t]:not(.reference)")].filter(group => group.querySelector(".line")).map(group => {
      const points = corners(group.querySelector(".line").getAttribute("d"));
      const entry = entries.find(each => each.dataset.traces.split(" ").includes(group.dataset.t));
      const output = element("output", {});
      (entry || told).append(output);
      return { points, output, panel: panels[group.dataset.p], isStep: /[hv]/.test(group.querySelector(".line").getAttribute("d").slice(1)) };
    });
    cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
    cursor.setAttribute("class", "cursor");
    chart.append(cursor);
  };
  const tools = element("div", { className: "tools" }), button = element("button", { type: "button", textContent: "Read values" });
  told = element("span", {});
  const place = element("output", {});
  told.append(place);
  tools.append(button);
  (figure.querySelector("details") || figure.lastChild).before(tools);
  const read = at => {
    if (!lines) { begin(); tools.append(told); }
    cursor.setAttribute("d", `M${at} ${panels[0][1]}V${panels.at(-1)[0]}`);
    place.textContent = `at ${number(valueAt(x, at))}: `;
    for (const { points, output, panel, isStep } of lines) {
      let best = null;
      for (const point of points) if (isStep ? point[0] <= at : !best || Math.abs(point[0] - at) < Math.abs(best[0] - at)) best = point;
      output.textContent = best ? number(valueAt(panel, best[1])) : "";
    }
  };
  const inside = at => Math.min(Math.max(at, x[0]), x[1]);
  chart.addEventListener("pointermove", event => { const box = chart.getBoundingClientRect(); read(inside((event.clientX - box.left) * chart.viewBox.baseVal.width / box.width)); });
  button.onclick = () => {
    const slider = element("input", { type: "range", min: x[0], max: x[1], step: "any", value: (x[0] + x[1]) / 2 });
    slider.step = (x[1] - x[0]) / 200;
    slider.setAttribute("aria-label", "Where values are read");
    slider.oninput = () => { read(Number(slider.value)); slider.setAttribute("aria-valuetext", place.textContent); };
    button.replaceWith(slider);
    slider.oninput();
    slider.focus();
  };
}

for (const network of document.querySelectorAll("[data-network]")) {
  const data = JSON.parse(network.querySelector("script").textContent), tools = network.querySelector(".tools");
  const slider = tools.querySelector("input"), choice = tools.querySelector("select"), at = network.querySelector(".at"), since = network.querySelector(".since");
  const meters = [...network.querySelectorAll(".meters li")], gauges = [...network.querySelectorAll("svg [data-c]")];
  const version = network.querySelector(".version");
  let timer = 0;
  const show = () => {
    const frame = Number(slider.value), run = data.runs[choice ? Number(choice.value) : 0], time = data.end * (frame + 1) / data.frames;
    at.textContent = `${number(time)} s`;
    slider.setAttribute("aria-valuetext", at.textContent);
    if (choice) version.textContent = choice.selectedOptions[0].textContent;
    const last = data.events.filter(([when]) => when <= time).at(-1);
    since.textContent = last ? ` (at ${number(last[0])} s: ${last[1]})` : "";
    meters.forEach((meter, index) => {
      const share = run[index][frame] / 999;
      meter.querySelector("b").style.width = `${100 * share}%`;
      meter.querySelector("output").textContent = `${Number((share * data.greatest[index]).toPrecision(3))} ${data.units[index]}`;
    });
    for (const gauge of gauges) {
      const share = run[gauge.dataset.c][frame] / 999;
      if (gauge.tagName === "line") gauge.setAttribute("stroke-width", 9 * share);
      else { gauge.setAttribute("width", 26 * share); if (gauge.closest(".queue")) gauge.setAttribute("x", 26 * (1 - share)); }
    }
  };
  const play = tools.querySelector("[data-play]");
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; };
  const step = by => { slider.value = (Number(slider.value) + by + data.frames) % data.frames; show(); };
  slider.oninput = () => { stop(); show(); };
  if (choice) choice.onchange = show;
  for (const button of tools.querySelectorAll("[data-step]")) button.onclick = () => { stop(); step(Number(button.dataset.step)); };
  play.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches;
  play.onclick = () => { if (timer) return stop(); play.textContent = "Stop"; timer = setInterval(() => Number(slider.value) + 1 < data.frames ? step(1) : stop(), 120); };
  tools.hidden = false;
}
