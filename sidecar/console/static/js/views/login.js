import * as api from "../api.js";
import { h, put } from "../dom.js";
import { icon } from "../icons.js";

// loginView asks for the token; refused says why a link was none.
export function loginView(enter, refused) {
  const error = h("p", { class: "notice bad", role: "alert", hidden: true });
  const input = h("input", { type: "password", name: "token", id: "token", autocomplete: "current-password",
    required: true, autofocus: true });
  const button = h("button", { class: "button primary", type: "submit" }, "Log in");
  const fail = (message) => {
    put(error, icon("residue"), h("span", {}, message));
    error.hidden = false;
    input.select();
  };
  const form = h("form", { class: "form", onsubmit: async (e) => {
    e.preventDefault();
    button.disabled = true;
    try {
      await api.login({ token: input.value });
      input.value = "";
      if (!(await enter())) fail("the browser did not keep the login: allow cookies for this address");
    } catch (cause) {
      fail(cause.message);
    } finally {
      button.disabled = false;
    }
  } }, h("input", { type: "text", name: "username", autocomplete: "username", value: "console", hidden: true }),
  h("label", { class: "field" }, h("span", {}, "Token"), input), error, button);
  const root = h("div", { class: "login" }, h("div", { class: "card" }, h("div", { class: "body" },
    h("div", { class: "brand" }, h("img", { src: "/icon.svg", alt: "", width: 32, height: 32 })),
    h("h1", {}, "Hence console"), h("p", { class: "sub" },
      "It shows what is decided in one workspace. Log in with the token that ",
      h("code", {}, "hence dev"), " or ", h("code", {}, "hence console"), " printed, or that is in its token file."),
        form,
    h("p", { class: "sub" }, h("a", { href: "#/file" }, "Open an exported transaction"),
      " – that needs no token."))));
  if (refused) fail(refused);
  return { root, title: "Log in" };
}
