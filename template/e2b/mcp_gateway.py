"""Builds E2B templates whose command "mcp-gateway" is this gateway.

    make build && pip install e2b && export E2B_API_KEY=...
    python template/e2b/mcp_gateway.py gateway duckduckgo fetch time arxiv
    python template/e2b/mcp_gateway.py servers my-agent github notion

The first line of the two builds the template "mcp-gateway" of your team. E2B looks for a name in the
team before it looks among its own templates, so from then on it is what Sandbox.create(mcp=...) starts,
and what add_mcp_server can be used on. The second builds a template on it with more servers.
"""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from e2b import Template, default_build_logger
from e2b.template.main import TemplateBuilder

REPOSITORY = Path(__file__).resolve().parents[2]
NAME = "mcp-gateway"
PARTS = "/opt/mcp-gateway-parts/"


def gateway(servers: Sequence[str] = (), base_image: str = "") -> TemplateBuilder:
    """Puts the gateway on a Debian or Ubuntu image, by default E2B's, with the servers installed.

    Without servers it installs all that servers run on, so that any can be added.
    """
    template = Template(file_context_path=REPOSITORY)
    builder = template.from_image(base_image) if base_image else template.from_base_image()
    install = shlex.join([PARTS + "install.sh", *servers])
    return (
        builder.copy("bin/mcp-gateway", PARTS, user="root", mode=0o755)
        .copy("template/install.sh", PARTS, user="root", mode=0o755)
        .run_cmd(f"{install} && rm -r {PARTS}", user="root")
    )


def with_servers(servers: Sequence[str]) -> TemplateBuilder:
    """Adds servers to the team's template "mcp-gateway"."""
    return Template().from_template(NAME).add_mcp_server(list(servers))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build an E2B template with mcp-gateway.")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--memory", type=int, default=2048, help="in MiB")
    commands = parser.add_subparsers(dest="command", required=True)
    base = commands.add_parser("gateway", help=f"build the template {NAME}")
    base.add_argument("--base-image", default="", help="a Debian or Ubuntu image instead of E2B's")
    base.add_argument("servers", nargs="*", help="servers to install")
    more = commands.add_parser("servers", help=f"build a template with more servers on {NAME}")
    more.add_argument("name", help="the new template's name")
    more.add_argument("servers", nargs="+", help="servers to install")
    args = parser.parse_args()

    if args.command == "gateway":
        name, template = NAME, gateway(args.servers, args.base_image)
    else:
        name, template = args.name, with_servers(args.servers)
    Template.build(
        template, name, cpu_count=args.cpus, memory_mb=args.memory, on_build_logs=default_build_logger()
    )


if __name__ == "__main__":
    main()
