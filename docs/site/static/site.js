// What is wider than the page scrolls by itself: then the keyboard must reach it.
(() => {
  const reach = () => {
    for (const box of document.querySelectorAll(".table-wrapper, .highlight pre, figure.network")) {
      if (box.scrollWidth > box.clientWidth) {
        box.setAttribute("tabindex", "0");
      } else {
        box.removeAttribute("tabindex");
      }
    }
  };
  addEventListener("load", reach);
  addEventListener("resize", reach);
})();
