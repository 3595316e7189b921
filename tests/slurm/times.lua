-- SPDX-License-Identifier: GPL-2.0
--
-- How long packaging/slurm/loga.lua takes with a table of nodes of eight GPUs, outside Slurm and with no
-- jobs. Arguments: the path of loga.lua, a folder to write a table into, and how many nodes (1,250).
-- Prints the median and the most of some tries, in ms of processor time: for a table that is new, and
-- for one that was read before.

local script, folder = arg[1], arg[2]
local TRIES = 25
local NODES = tonumber(arg[3] or 1250)
-- `loga slurm table` writes no more, and leaves out the busiest.
local ROWS = math.min(NODES * 8, 16384)
local function name(node)
	return string.format("node%05d", node)
end
local LAST = name(math.ceil(ROWS / 8))
local PARTS = {
	all = { nodes = string.format("node[00001-%05d]", NODES), flag_default = 1 },
	last = { nodes = LAST, flag_default = 0 },
}
slurm = { jobs = {}, log_error = print, log_info = function() end }

-- Best first; `shards` of each GPU.
local function table_of(shards)
	local rows = { "# loga-slurm-table 2 " .. os.time() }
	for at = 0, ROWS - 1 do
		rows[#rows + 1] = string.format("%s %d %.3f 1 %d 64 512000",
			name(math.floor(at / 8) + 1), at % 8, at / ROWS, shards)
	end
	return table.concat(rows, "\n") .. "\n"
end

local loga
local function place(partition)
	local start = os.clock()
	local node, why = loga.place({
		tres_per_node = "gres:shard:1", min_nodes = 1, min_cpus = 1, partition = partition,
	}, PARTS, 1)
	return (os.clock() - start) * 1000, node, why
end

local function line(what, times)
	table.sort(times)
	print(string.format("%-56s %6.2f %6.2f", what, times[math.ceil(#times / 2)], times[#times]))
end

local function measure(what, shards, partition, wanted)
	local content = table_of(shards)
	local first, later = {}, {}
	for try = 1, TRIES do
		-- What the script remembers is gone, and the table is another one.
		loga = dofile(script)
		loga.path = folder .. "/table"
		local file = assert(io.open(loga.path, "w"))
		file:write((content:gsub(" 512000", " " .. 512000 + try)))
		file:close()
		collectgarbage()
		local took, node, why = place(partition)
		assert(node == wanted or why == wanted, tostring(why))
		first[try] = took
		later[try] = place(partition)
	end
	line(what .. ", new table", first)
	line(what .. ", table of before", later)
end

print(string.format("%-56s %6s %6s", ROWS .. " GPUs, " .. #table_of(4) .. " bytes; ms", "median", "most"))
measure("best GPU has room", 4, "all", name(1))
measure("only the last node is in the partition", 4, "last", LAST)
measure("no GPU has room", 0, "all", "no GPU with room")
