// What is wrong with the page as it is drawn, one line each: text that lies on text, that reaches out of its
// picture or of the page, figures on each other, letters too small to read.
() => {
  const found = [], slack = 1.5;
  const said = node => `"${(node.textContent || "").trim().slice(0, 40)}"`;
  const box = node => node.getBoundingClientRect();
  const isShown = node => node.checkVisibility({ checkVisibilityCSS: true }) && box(node).width > 0;
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > slack && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > slack;
  const within = (inner, outer) => inner.left >= outer.left - slack && inner.right <= outer.right + slack && inner.top >= outer.top - slack && inner.bottom <= outer.bottom + slack;
  // Rotated by anything but quarters, a box says little about where the letters are.
  const isSlanted = node => { for (let each = node; each.tagName !== "svg"; each = each.parentNode) { const turn = /rotate\((-?[\d.]+)/.exec(each.getAttribute("transform") || ""); if (turn && Number(turn[1]) % 90) return true; } return false; };
  const pairs = (all, act) => all.forEach((one, index) => all.slice(index + 1).forEach(other => act(one, other)));

  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width + 1) found.push(`the page is ${document.documentElement.scrollWidth} pixels wide, not ${width}`);
  for (const node of document.querySelectorAll("h2, h3, p, figure, figcaption, li, dd, dt, pre, summary, select, button, input")) {
    if (isShown(node) && !node.closest(".scroll") && box(node).right > width + slack) found.push(`${node.tagName} ${said(node)} reaches out of the page`);
  }
  for (const drawing of document.querySelectorAll("svg.chart, svg.topology")) {
    const texts = [...drawing.querySelectorAll("text")].filter(isShown);
    const letters = box(drawing).width / drawing.viewBox.baseVal.width * 12;
    if (letters < 8.5 && drawing.matches(".chart")) found.push(`letters of ${letters.toFixed(1)} pixels in ${drawing.getAttribute("aria-label").slice(0, 40)}`);
    for (const text of texts) if (!within(box(text), box(drawing))) found.push(`text ${said(text)} is cut off`);
    pairs(texts.filter(text => !isSlanted(text)), (one, other) => { if (meet(box(one), box(other))) found.push(`text ${said(one)} lies on ${said(other)}`); });
  }
  const figures = [...document.querySelectorAll("figure, .network")].filter(isShown);
  pairs(figures, (one, other) => { if (meet(box(one), box(other))) found.push(`${one.id || one.className} lies on ${other.id || other.className}`); });
  for (const figure of figures) {
    const parts = [...figure.children].filter(isShown);
    for (const part of parts) if (!within(box(part), box(figure))) found.push(`${part.tagName} ${said(part)} reaches out of ${figure.id || figure.className}`);
    pairs(parts, (one, other) => { if (meet(box(one), box(other))) found.push(`${one.tagName} lies on ${other.tagName} in ${figure.id || figure.className}`); });
  }
  for (const region of document.querySelectorAll(".scroll")) {
    const cuts = getComputedStyle(region).overflowX !== "auto" && region.scrollWidth > region.clientWidth + slack;
    if (isShown(region) && cuts) found.push(`${region.getAttribute("aria-label")} is ${region.scrollWidth} pixels wide and cannot be scrolled`);
  }
  return found;
}
